// SPDX-License-Identifier: Apache-2.0
//
// Makes sure that a command acts on the process that its caller means. By the time that the command
// runs, the id may belong to another process. So a caller that has a pidfd, such as the keeper,
// passes it on as an open descriptor. As long as the process of the pidfd is alive, no other
// process has the id.
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
// ESRCH: the intended process has ended, even if another one has its id now.
Result<void> check_handle(int handle, pid_t pid);

} // namespace cryo::cli
