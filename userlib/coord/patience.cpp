// SPDX-License-Identifier: Apache-2.0
#include "coord/patience.hpp"

#include "sys/own_variable.hpp"

#include <cstdlib>
#include <fmt/format.h>

namespace cryo::coord {

namespace {

constexpr int default_silence_s = 5;

} // namespace

std::chrono::milliseconds longest_silence()
{
    const char *wanted = sys::own_variable("CRYO_DEADLINE");
    const int seconds = wanted != nullptr ? atoi(wanted) : 0;
    return std::chrono::seconds(seconds > 0 ? seconds : default_silence_s);
}

std::string in_seconds(std::chrono::milliseconds time)
{
    return fmt::format("{} s", std::chrono::duration_cast<std::chrono::seconds>(time).count());
}

} // namespace cryo::coord
