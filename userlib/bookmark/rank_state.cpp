// SPDX-License-Identifier: Apache-2.0
// This rank's message counts, and what it is doing.
#include "bookmark/rank.hpp"

namespace cryo::bookmark {

Tally Rank::sent_to(WorldRank rank) const
{
    Tally total;
    for (const auto &[id, comm] : comms_)
        total += comm.sent_to(rank);
    if (auto at = retired_.find(rank); at != retired_.end())
        total += at->second.sent;
    return total;
}

Tally Rank::received_from(WorldRank rank) const
{
    Tally total;
    for (const auto &[id, comm] : comms_)
        total += comm.received_from(rank);
    if (auto at = retired_.find(rank); at != retired_.end())
        total += at->second.received;
    return total;
}

Tally Rank::received() const
{
    Tally total;
    auto add = [&](WorldRank, const Tally &, const Tally &received) { total += received; };
    for (const auto &[id, comm] : comms_)
        comm.for_used(add);
    for (const auto &[rank, traffic] : retired_)
        total += traffic.received;
    return total;
}

StateEntry Rank::state() const
{
    StateEntry s{.rank = self_, .doing = Doing::running};
    if (phase_ == Phase::cut) {
        s.have = received().messages;
        s.want = expected_.messages;
        s.doing = s.have == s.want ? Doing::finishing : Doing::draining;
        return s;
    }
    if (phase_ == Phase::drained || phase_ == Phase::saved) {
        s.doing = Doing::saving;
        return s;
    }
    for (const auto &[id, comm] : comms_) {
        if (comm.clock < comm.target) {
            s.comm = id;
            s.have = comm.clock;
            s.want = comm.target;
        }
    }
    if (inside_) {
        s.doing = Doing::collective;
        s.comm = inside_comm_;
    } else if (!needs_.empty()) {
        s.doing = Doing::receiving;
        s.on = needs_.front().to;
        s.comm = needs_.front().comm;
    } else if (epochs_) {
        s.doing = Doing::epoch;
    } else if (behind_ == 0 && is_needed()) {
        s.doing = Doing::needed;
        s.on = needed_.front().by;
    }
    return s;
}

uint64_t Rank::drained_messages() const
{
    uint64_t count = 0;
    for (const auto &[id, comm] : comms_)
        count += comm.drained.size();
    return count;
}

} // namespace cryo::bookmark
