// SPDX-License-Identifier: Apache-2.0
#include "coord/silence.hpp"

#include "coord/patience.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace cryo::coord {

namespace {

constexpr size_t most_questions = 64;

} // namespace

uint64_t Silence::asked()
{
    asked_ = Clock::now();
    times_.emplace(++numbers_, asked_);
    if (times_.size() > most_questions)
        times_.erase(times_.begin());
    return numbers_;
}

std::optional<Silence::Clock::time_point> Silence::when_asked(uint64_t number) const
{
    const auto at = times_.find(number);
    return at != times_.end() ? std::optional(at->second) : std::nullopt;
}

bool Silence::is_silent(const Member &one) const
{
    return Clock::now() - std::max(one.heard, begun_) >= longest_silence();
}

std::vector<uint32_t> Silence::silent() const
{
    std::vector<uint32_t> silent;
    for (const auto &[number, one] : members_.all()) {
        if (is_silent(one))
            silent.push_back(number);
    }
    return silent;
}

// Where answers come along the tree, a daemon that says nothing keeps back what all below it say.
bool Silence::is_cut_off(uint32_t number) const
{
    const Member *one = members_.find(number);
    const Member *above = one != nullptr && one->index ? members_.find(one->above) : nullptr;
    return above != nullptr && above->number != 0 && is_silent(*above);
}

std::optional<std::string> Silence::why() const
{
    const auto own = std::chrono::duration_cast<std::chrono::milliseconds>(since_asked());
    if (own >= longest_silence())
        return fmt::format("node {}: its daemon, the job's first, stood still for {}",
                           members_.name(0), in_seconds(own));
    std::vector<uint32_t> all = silent();
    if (all.empty())
        return std::nullopt;
    std::erase_if(all, [this](uint32_t number) { return is_cut_off(number); });
    return fmt::format("node {}: its daemon has said nothing for {}; look at that node, or give it "
                       "longer (CRYO_DEADLINE)",
                       members_.names(all), in_seconds(longest_silence()));
}

} // namespace cryo::coord
