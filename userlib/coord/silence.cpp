// SPDX-License-Identifier: Apache-2.0
#include "coord/silence.hpp"

#include "coord/patience.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace cryo::coord {

std::vector<uint32_t> Silence::silent() const
{
    std::vector<uint32_t> silent;
    for (const auto &[number, one] : members_.all()) {
        if (Clock::now() - std::max(one.heard, begun_) >= longest_silence())
            silent.push_back(number);
    }
    return silent;
}

std::optional<std::string> Silence::why() const
{
    const auto own = std::chrono::duration_cast<std::chrono::milliseconds>(since_asked());
    if (own >= longest_silence())
        return fmt::format("node {}: its daemon, the job's first, stood still for {}",
                           members_.name(0), in_seconds(own));
    const std::vector<uint32_t> all = silent();
    if (all.empty())
        return std::nullopt;
    std::string names;
    for (const uint32_t number : all)
        names += fmt::format("{}{}", names.empty() ? "" : ", ", members_.name(number));
    return fmt::format("node {}: its daemon has said nothing for {}; look at that node, or give it "
                       "longer (CRYO_DEADLINE)",
                       names, in_seconds(longest_silence()));
}

} // namespace cryo::coord
