// SPDX-License-Identifier: Apache-2.0
//
// The environment variable in which cr_run records, for a later checkpoint, the connections that a
// program inherited from the process that started it. The variable in the program's environment
// holds the boot id (inodes are meaningless after a reboot), a colon, and the sockets' inodes,
// comma-separated.
#pragma once

namespace cryo::capture {

constexpr const char *inherited_variable = "CRYO_INHERITED";
constexpr const char *boot_id_file = "/proc/sys/kernel/random/boot_id";

} // namespace cryo::capture
