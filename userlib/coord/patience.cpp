// SPDX-License-Identifier: Apache-2.0
#include "coord/patience.hpp"

#include "sys/own_variable.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

namespace cryo::coord {

namespace {

constexpr int default_silence_s = 5;
constexpr int64_t most_patience_s = 1 << 30; // of a request
constexpr uint64_t slowest_disk = 1 << 20;   // bytes a second

// Times the longer of a request's patience and two silences.
constexpr int command_times = image_times + 8;

} // namespace

std::chrono::milliseconds longest_silence()
{
    const char *wanted = sys::own_variable("CRYO_DEADLINE");
    const int seconds = wanted != nullptr ? atoi(wanted) : 0;
    return std::chrono::seconds(seconds > 0 ? seconds : default_silence_s);
}

std::chrono::milliseconds longest_command(int64_t patience_s)
{
    const std::chrono::seconds patience(std::min(patience_s, most_patience_s));
    return command_times * std::max<std::chrono::milliseconds>(patience, 2 * longest_silence());
}

std::chrono::milliseconds time_to_write(uint64_t bytes, uint64_t rate)
{
    constexpr auto most = static_cast<uint64_t>(std::chrono::seconds(longest_growth).count());
    const uint64_t slowest = rate > 0 ? std::min(rate, slowest_disk) : slowest_disk;
    return std::chrono::seconds(static_cast<int64_t>(std::min(bytes / slowest, most)));
}

std::string in_seconds(std::chrono::milliseconds time)
{
    return fmt::format("{} s", std::chrono::duration_cast<std::chrono::seconds>(time).count());
}

} // namespace cryo::coord
