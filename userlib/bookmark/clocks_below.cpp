// SPDX-License-Identifier: Apache-2.0
#include "bookmark/clocks_below.hpp"

#include <algorithm>

namespace cryo::bookmark {

bool ClocksBelow::has_room_for(std::span<const ClockEntry> entries) const
{
    if (known_.size() + entries.size() <= most_)
        return true;
    const auto fresh =
        std::ranges::count_if(entries, [&](const ClockEntry &e) { return !knows(e.comm); });
    return known_.size() + static_cast<uint64_t>(fresh) <= most_;
}

void ClocksBelow::hear(uint32_t child, const ClockEntry &entry)
{
    Known &known = known_[entry.comm];
    known.members = entry.members;
    known.heard += entry.heard;
    known.high = std::max(known.high, entry.high);
    const auto at = std::ranges::find(known.below, child, &Member::child);
    if (at == known.below.end())
        known.below.push_back({child, entry.low});
    else if (entry.heard)
        at->low = std::min(at->low, entry.low);
}

void ClocksBelow::find_homes(bool is_root, Entries &above, Targets &targets)
{
    for (auto &[id, known] : known_) {
        known.home = is_root || known.heard == known.members;
        if (known.home) {
            add_targets(id, known, targets);
            continue;
        }
        uint64_t low = known.high;
        for (const Member &m : known.below)
            low = std::min(low, m.low);
        above.push_back({.comm = id,
                         .members = known.members,
                         .heard = known.heard,
                         .low = low,
                         .high = known.high});
    }
}

void ClocksBelow::raise(CommId comm, uint64_t high)
{
    Known &known = known_[comm];
    known.high = std::max(known.high, high);
}

void ClocksBelow::add_targets(CommId comm, Targets &targets) const
{
    if (const Known *known = find(comm))
        add_targets(comm, *known, targets);
}

void ClocksBelow::add_targets(CommId comm, const Known &known, Targets &targets)
{
    for (const Member &m : known.below) {
        if (m.low < known.high)
            targets[m.child].push_back(
                {.comm = comm, .members = known.members, .heard = 0, .low = 0, .high = known.high});
    }
}

bool ClocksBelow::is_home(CommId comm) const
{
    const Known *known = find(comm);
    return known != nullptr && known->home;
}

std::vector<uint32_t> ClocksBelow::children_of(CommId comm) const
{
    std::vector<uint32_t> children;
    if (const Known *known = find(comm)) {
        for (const Member &m : known->below)
            children.push_back(m.child);
    }
    return children;
}

void ClocksBelow::note_need(MessageType type, const Need &need)
{
    std::map<WorldRank, Need> &wanted = known_[need.comm].wanted;
    if (type == MessageType::need)
        wanted[need.from] = need;
    else
        wanted.erase(need.from);
}

std::vector<Need> ClocksBelow::needs(CommId comm) const
{
    std::vector<Need> all;
    if (const Known *known = find(comm)) {
        for (const auto &[from, need] : known->wanted)
            all.push_back(need);
    }
    return all;
}

const ClocksBelow::Known *ClocksBelow::find(CommId comm) const
{
    const auto at = known_.find(comm);
    return at != known_.end() ? &at->second : nullptr;
}

} // namespace cryo::bookmark
