// SPDX-License-Identifier: Apache-2.0
//
// What cr_run tells a later checkpoint of the connections that a program has from whoever started
// it: the id of the machine's boot, for inodes mean nothing after it, a colon, and the sockets'
// inodes with commas. It stands in the program's environment.
#pragma once

namespace cryo::capture {

constexpr const char *inherited_variable = "CRYO_INHERITED";
constexpr const char *boot_id_file = "/proc/sys/kernel/random/boot_id";

} // namespace cryo::capture
