// SPDX-License-Identifier: Apache-2.0
//
// The command that brings back what is supervised, and the line in which cr_restart says that it
// has.
//
//     Result<Restart> begun = begin_restart(subject, "context.000007", {}, mask);
//     report.begin(std::move(begun->report));
//     ... const Return back = return_in(line);
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "recover/subject.hpp"

#include <csignal>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <sys/types.h>
#include <vector>

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

// `more`: options (Subject::restart_words). `mask`: what is blocked in it.
Result<Restart> begin_restart(const Subject &subject, const std::string &image,
                              const std::vector<std::string> &more, const sigset_t &mask);

Return return_in(const nlohmann::json &line);

} // namespace cryo::recover
