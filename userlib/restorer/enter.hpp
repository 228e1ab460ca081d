// SPDX-License-Identifier: Apache-2.0
//
// Turns a fresh process into the saved one: called by the preloaded library's constructor
// in a process that cr_restart has made, before any code of the program runs.
//
//     if (const char *fd = sys::own_variable(restore::plan_variable))
//         restore::enter(atoi(fd)); // does not return
#pragma once

namespace cryo::restore {

constexpr const char *plan_variable = "CRYO_PLAN_FD";

[[noreturn]] void enter(int plan_fd);

} // namespace cryo::restore
