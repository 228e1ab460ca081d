// SPDX-License-Identifier: Apache-2.0
//
// The filters of system calls (seccomp) that a program has put on itself. The agent works in the
// program, under them: those that would not let it are found before the program is entered, by what
// their instructions answer to each of its calls.
//
//     if (Result<void> judged = judge_filters(proc); !judged)
//         return judged; // names the call; nothing was done in the program
#pragma once

#include "base/result.hpp"
#include "look/filter_program.hpp"
#include "look/proc.hpp"

#include <span>
#include <string>

namespace cryo::capture {

// Holds each thread for a moment, if the process has filters of its own.
Result<void> judge_filters(const Proc &proc);

// Why a program under these filters cannot be saved, after "process 412 "; empty: it can.
std::string filters_obstacle(std::span<const CallFilter> filters);

constexpr const char *way_out_of_filters =
    "let the filter allow what Cryo calls in a program (docs/containers.md), or start the program "
    "without it";

} // namespace cryo::capture
