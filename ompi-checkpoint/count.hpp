// SPDX-License-Identifier: Apache-2.0
//
// Counts a snapshot of a job for Prometheus (metrics/commands.hpp). What cannot be counted is said,
// and stops no checkpoint.
//
//     count(command, end);
#pragma once

#include "base/result.hpp"

#include <nlohmann/json.hpp>

// `end`: the daemon's last message, or why there is none.
void count(const char *command, const cryo::Result<nlohmann::json> &end);
