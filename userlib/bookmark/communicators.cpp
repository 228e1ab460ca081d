// SPDX-License-Identifier: Apache-2.0
#include "bookmark/communicators.hpp"

#include <algorithm>
#include <cassert>

namespace cryo::bookmark {

Communicators::Communicators(Threads threads, std::pmr::memory_resource *memory)
    : threads_(threads), memory_(memory), comms_(memory), retired_(memory), gone_(memory)
{}

Comm &Communicators::add(CommId id, uint32_t peer_count, std::span<const WorldRank> peers,
                         uint32_t members)
{
    auto [at, is_new] = comms_.try_emplace(id, id, peer_count, peers, members, threads_, memory_);
    assert(is_new);
    return at->second;
}

Comm *Communicators::find(CommId id)
{
    auto at = comms_.find(id);
    return at != comms_.end() ? &at->second : nullptr;
}

void Communicators::drop(Comm &comm)
{
    comm.freed = true;
    lingering_++;
}

void Communicators::forget_freed(const Receives &receives)
{
    if (lingering_ == 0)
        return;
    for (auto at = comms_.begin(); at != comms_.end();) {
        Comm &comm = at->second;
        if (!comm.freed || comm.lasting || comm.requests != 0 || receives.is_arriving(comm)) {
            ++at;
            continue;
        }
        comm.for_used([&](WorldRank rank, const Tally &sent, const Tally &received) {
            Traffic &traffic = retired_[rank];
            traffic.sent += sent;
            traffic.received += received;
        });
        if (comm.members() > 1) // nobody else could be behind
            gone_.push_back({.id = comm.id(), .clock = comm.clock, .members = comm.members()});
        lingering_--;
        at = comms_.erase(at);
    }
}

void Communicators::forget_counts()
{
    for (auto &[id, comm] : comms_)
        comm.forget_counts();
    retired_.clear();
    gone_.clear();
}

Tally Communicators::sent_to(WorldRank rank) const
{
    Tally total;
    for (const auto &[id, comm] : comms_)
        total += comm.sent_to(rank);
    if (auto at = retired_.find(rank); at != retired_.end())
        total += at->second.sent;
    return total;
}

Tally Communicators::received_from(WorldRank rank) const
{
    Tally total;
    for (const auto &[id, comm] : comms_)
        total += comm.received_from(rank);
    if (auto at = retired_.find(rank); at != retired_.end())
        total += at->second.received;
    return total;
}

Tally Communicators::received() const
{
    Tally total;
    auto add = [&](WorldRank, const Tally &, const Tally &received) { total += received; };
    for (const auto &[id, comm] : comms_)
        comm.for_used(add);
    for (const auto &[rank, traffic] : retired_)
        total += traffic.received;
    return total;
}

void Communicators::add_sent(std::pmr::vector<CountEntry> &counts) const
{
    auto add = [&](WorldRank rank, const Tally &sent, const Tally &) {
        if (sent.messages)
            counts.push_back({rank, sent});
    };
    for (const auto &[id, comm] : comms_)
        comm.for_used(add);
    for (const auto &[rank, traffic] : retired_)
        add(rank, traffic.sent, traffic.received);
    std::sort(counts.begin(), counts.end(),
              [](const CountEntry &a, const CountEntry &b) { return a.rank < b.rank; });
    size_t kept = 0;
    for (size_t i = 0; i < counts.size(); i++) {
        if (kept && counts[kept - 1].rank == counts[i].rank)
            counts[kept - 1].tally += counts[i].tally;
        else
            counts[kept++] = counts[i];
    }
    counts.resize(kept);
}

void Communicators::begin_clocks(std::pmr::vector<ClockEntry> &clocks)
{
    for (const Gone &gone : gone_)
        clocks.push_back({.comm = gone.id,
                          .members = gone.members,
                          .heard = 1,
                          .low = gone.clock,
                          .high = gone.clock});
    for (auto &[id, comm] : comms_) {
        uint64_t now = comm.clock;
        comm.target = now;
        clocks.push_back(
            {.comm = id, .members = comm.members(), .heard = 1, .low = now, .high = now});
    }
}

uint64_t Communicators::drained_messages() const
{
    uint64_t count = 0;
    for (const auto &[id, comm] : comms_)
        count += comm.drained.size();
    return count;
}

} // namespace cryo::bookmark
