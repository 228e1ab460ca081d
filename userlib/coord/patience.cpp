// SPDX-License-Identifier: Apache-2.0
#include "coord/patience.hpp"

#include "sys/own_variable.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

namespace cryo::coord {

namespace {

constexpr int default_silence_s = 5;
constexpr int64_t most_patience_s = 1 << 28; // of a request; 24 times as many nanoseconds fit
constexpr uint64_t slowest_disk = 1 << 20;   // bytes a second

// Times the longer of a request's patience and two silences.
constexpr int command_times = image_times + 8;

std::chrono::seconds bounded(int64_t patience_s)
{
    return std::chrono::seconds(std::min(patience_s, most_patience_s));
}

} // namespace

std::chrono::milliseconds longest_silence()
{
    const char *wanted = sys::own_variable("CRYO_DEADLINE");
    const int seconds = wanted != nullptr ? atoi(wanted) : 0;
    return std::chrono::seconds(seconds > 0 ? seconds : default_silence_s);
}

std::chrono::milliseconds longest_command(int64_t patience_s)
{
    return command_times *
           std::max<std::chrono::milliseconds>(bounded(patience_s), 2 * longest_silence());
}

std::chrono::milliseconds longest_image(int64_t patience_s)
{
    return image_times * bounded(patience_s);
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
