// SPDX-License-Identifier: Apache-2.0
#include "bookmark/counts_below.hpp"

#include <algorithm>

namespace cryo::bookmark {

void CountsBelow::hear(uint32_t child, const Message &ready)
{
    Child &c = children_[child];
    c.ready = ready.acks;
    c.sent.clear();
    for (const CountEntry &e : ready.counts)
        c.sent[e.rank] += e.tally;
}

bool CountsBelow::is_report_due() const
{
    return reported_ != acks_ &&
           std::ranges::all_of(children_, [](const Child &c) { return c.ready == c.told; });
}

void CountsBelow::report(const Routes &routes, Message &ready)
{
    reported_ = acks_;
    ready.acks = acks_;
    due_.clear();
    std::map<WorldRank, Tally> outside;
    for (const Child &c : children_)
        for (const auto &[rank, tally] : c.sent)
            (routes.child_of(rank) == Routes::kElsewhere ? outside : due_)[rank] += tally;
    for (const auto &[rank, tally] : outside)
        ready.counts.push_back({rank, tally});
}

void CountsBelow::expect(std::span<const CountEntry> entries)
{
    for (const CountEntry &e : entries)
        due_[e.rank] += e.tally;
}

void CountsBelow::take(const Routes &routes, std::vector<Message> &messages)
{
    for (const auto &[rank, tally] : due_)
        if (uint32_t child = routes.child_of(rank); child != Routes::kElsewhere)
            messages[child].counts.push_back({rank, tally});
    due_.clear();
}

} // namespace cryo::bookmark
