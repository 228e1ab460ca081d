// SPDX-License-Identifier: Apache-2.0
//
// Becoming the old process: called by the preloaded library's constructor in a process that
// cr_restart has made, before anything of the program ran.
//
//     if (const char *fd = sys::own_variable(restore::plan_variable))
//         restore::enter(atoi(fd)); // does not come back
#pragma once

namespace cryo::restore {

constexpr const char *plan_variable = "CRYO_PLAN_FD";

[[noreturn]] void enter(int plan_fd);

} // namespace cryo::restore
