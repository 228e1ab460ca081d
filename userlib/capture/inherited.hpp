// SPDX-License-Identifier: Apache-2.0
//
// What cr_run tells a later checkpoint of the sockets that a program has from whoever started it:
// their inodes, with commas, in the program's environment.
#pragma once

namespace cryo::capture {

constexpr const char *inherited_variable = "CRYO_INHERITED";

} // namespace cryo::capture
