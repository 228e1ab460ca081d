// SPDX-License-Identifier: Apache-2.0
//
// A cr_restart that brings the supervised program back, and the line in which it says so.
//
//     Result<Restart> begun = begin_restart("/scratch/run/context.000007", keeping, mask);
//     poll({begun->report.get(), POLLIN});
//     if (const std::optional<Return> back = take_report(begun->report)) ...
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "keeper/settings.hpp"

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

namespace cryo::recover {

struct Return { // of the program
    pid_t pid = 0;
    pid_t own_pid = 0;
    int64_t saved_at_ns = 0;
    pid_t keeper = 0; // 0: there is none
};

struct Restart {
    pid_t pid = 0;
    Fd report;
};

// `mask`: what is blocked in it. Images are made as `keeping`, which is complete, says.
Result<Restart> begin_restart(const std::string &image, const keeper::Settings &keeping,
                              const sigset_t &mask);

// The report is closed when there is no more to come.
std::optional<Return> take_report(Fd &report);

} // namespace cryo::recover
