// SPDX-License-Identifier: Apache-2.0
#include "coord/lease.hpp"

#include "coord/patience.hpp"

#include <chrono>

namespace cryo::coord {

namespace {

constexpr int silences_in_lease = 3;
constexpr int renewals_in_lease = 6;
constexpr size_t most_unanswered = 64;

} // namespace

LeaseTimes lease_times()
{
    const int64_t silence = std::chrono::nanoseconds(longest_silence()).count();
    const int64_t lease = silences_in_lease * silence;
    return {.lease = lease, .margin = silence, .renewal = renewal_of(lease)};
}

int64_t renewal_of(int64_t lease)
{
    return lease / renewals_in_lease;
}

uint64_t Lease::ask(int64_t now)
{
    asked_.emplace(++numbers_, now);
    if (asked_.size() > most_unanswered)
        asked_.erase(asked_.begin());
    return numbers_;
}

void Lease::granted(uint64_t number)
{
    const auto at = asked_.find(number);
    if (at == asked_.end())
        return;
    end_ = at->second + length_;
    asked_.erase(asked_.begin(), std::next(at)); // an earlier answer would shorten it
}

std::vector<uint32_t> Grants::unrenewed(int64_t now) const
{
    std::vector<uint32_t> ended;
    for (const auto &[member, at] : granted_) {
        if (now - at >= times_.lease)
            ended.push_back(member);
    }
    return ended;
}

int64_t Grants::over(uint32_t member) const
{
    const auto at = granted_.find(member);
    return at != granted_.end() ? at->second + times_.lease + times_.margin : 0;
}

} // namespace cryo::coord
