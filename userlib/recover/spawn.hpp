// SPDX-License-Identifier: Apache-2.0
//
// Starts a command that inherits one descriptor more than the standard ones.
//
//     Result<pid_t> child = spawn({"/usr/bin/cr_restart", "--supervisor", "7", image}, 7, mask);
#pragma once

#include "base/result.hpp"

#include <csignal>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::recover {

// `inherited` is open in the command under the same number; `blocked` are its blocked signals.
Result<pid_t> spawn(std::vector<std::string> words, int inherited, const sigset_t &blocked);

} // namespace cryo::recover
