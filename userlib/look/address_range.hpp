// SPDX-License-Identifier: Apache-2.0
//
// Reads the beginning of a mapping's line in /proc/PID/maps or smaps.
//
//     std::string_view line = "7f00-7f01 rw-p 00000000 08:01 1234";
//     const std::optional<Run> range = take_range(line); // the rest begins with "rw-p"
#pragma once

#include "look/runs.hpp"

#include <optional>
#include <string_view>

namespace cryo::capture {

// Empty: the line begins otherwise, and what is left of it means nothing.
std::optional<Run> take_range(std::string_view &line);

} // namespace cryo::capture
