// SPDX-License-Identifier: Apache-2.0
//
// What cr_status prints, as text or as a line of JSON each. The result is its exit code.
//
//     return show_programs(survey.look(), pid, json);
#pragma once

#include "base/result.hpp"
#include "survey/budget.hpp"
#include "survey/programs.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cryo::status {

inline constexpr const char *command = "cr_status";
inline constexpr int not_good = 1;

// `pid`: only that one is left, and shown at length; 0: all are.
int show_programs(const std::vector<survey::Running> &all, pid_t pid, bool json);
int show_images(const std::string &directory, bool json);
int prune_images(const std::string &directory, uint64_t budget, survey::Removal removal, bool json);

void print_line(const nlohmann::ordered_json &object);

} // namespace cryo::status
