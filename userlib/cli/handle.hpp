// SPDX-License-Identifier: Apache-2.0
//
// The process that a command's caller means. Its id may be another process's by the time that the
// command runs: so a caller that has a handle of it (pidfd), as the keeper, passes that on as an
// open descriptor. As long as the handle's process is alive, the id is no other's.
//
//     int handle = -1;                               // there is none
//     cli::add_handle_option(app, handle);           // --pidfd, which help does not mention
//     Result<void> same = cli::check_handle(handle, pid);
#pragma once

#include "base/result.hpp"

#include <CLI/CLI.hpp>
#include <sys/types.h>

namespace cryo::cli {

void add_handle_option(CLI::App &app, int &handle);
// ESRCH: the process that was meant has ended, whatever has its id now.
Result<void> check_handle(int handle, pid_t pid);

} // namespace cryo::cli
