// SPDX-License-Identifier: Apache-2.0
#include "rank_sim.hpp"

#include <algorithm>
#include <cstring>

namespace cryo::bookmark::sim {

namespace {

Arrival arrival_of(const Packet &p, uint64_t capacity)
{
    return {.source = p.source,
            .tag = p.tag,
            .bytes = std::min(p.bytes, capacity),
            .truncated = p.bytes > capacity};
}

void fill(Drained &message, const Packet &p)
{
    message.source = p.source;
    message.tag = p.tag;
    message.data.assign(p.bytes, 0);
    memcpy(message.data.data(), &p.id, sizeof p.id);
}

} // namespace

void SimMpi::post(Receive &r)
{
    r.native = shared_.net.post(self_, r.comm->id(), r.source, r.tag);
    posted_.push_back(&r);
}

bool SimMpi::test(Receive &r, Arrival &arrival)
{
    const Packet *p = shared_.net.test(r.native);
    if (!p)
        return false;
    static_cast<Request &>(r).payload = p->id;
    arrival = arrival_of(*p, r.capacity);
    std::erase(posted_, &r);
    return true;
}

Withdrawal SimMpi::withdraw(Receive &r, Arrival &arrival)
{
    if (shared_.sabotage == Sabotage::oldest_withdrawn_first) {
        // Asked to cancel the youngest receive, the library cancels the oldest; more messages
        // arrive before the others are cancelled.
        for (Receive *other : posted_) {
            if (other->comm == r.comm && other != &r &&
                shared_.net.cancel(other->native) == Net::Cancel::cancelled) {
                while (shared_.net.channels())
                    shared_.net.deliver(0);
                other->native = shared_.net.post(self_, other->comm->id(), 1 << 30, 0);
                break;
            }
        }
    }
    // The network may deliver messages before the cancellation.
    while (shared_.net.channels() && shared_.random() % 2)
        shared_.net.deliver(shared_.random() % shared_.net.channels());
    switch (shared_.net.cancel(r.native)) {
    case Net::Cancel::cancelled:
        std::erase(posted_, &r);
        shared_.report.withdrawn++;
        return Withdrawal::withdrawn;
    case Net::Cancel::done:
        if (shared_.sabotage == Sabotage::match_taken_for_withdrawn) {
            shared_.net.test(r.native);
            return Withdrawal::withdrawn;
        }
        test(r, arrival);
        return Withdrawal::done;
    case Net::Cancel::arriving:
        break;
    }
    return Withdrawal::arriving;
}

bool SimMpi::probe(Comm &comm, int source, int tag, Arrival &arrival)
{
    const Packet *p = shared_.net.probe(self_, comm.id(), source, tag);
    if (p)
        arrival = arrival_of(*p, p->bytes);
    return p;
}

bool SimMpi::mprobe(Comm &comm, int source, int tag, Matched &matched)
{
    const Packet *p = shared_.net.probe(self_, comm.id(), source, tag);
    if (!p)
        return false;
    matched.arrival = arrival_of(*p, p->bytes);
    matched.native = shared_.net.take(self_, comm.id(), source, tag);
    return true;
}

void SimMpi::receive_matched(Matched &matched, Receive &r)
{
    r.native = matched.native;
    posted_.push_back(&r);
}

bool SimMpi::take(Comm &comm, Drained &message)
{
    message.native = shared_.sabotage == Sabotage::drained_newest_first
                         ? shared_.net.take_newest(self_, comm.id())
                         : shared_.net.take(self_, comm.id(), kAnySource, kAnyTag);
    if (!message.native)
        return false;
    fill(message, shared_.net.packet(message.native));
    return true;
}

void SimMpi::take_matched(Matched &matched, Drained &message)
{
    message.native = matched.native;
    if (shared_.sabotage == Sabotage::matched_probe_kept)
        message.native = 0;
    message.source = matched.arrival.source;
    message.tag = matched.arrival.tag;
}

bool SimMpi::taken(Drained &message)
{
    if (message.native == 0) // sabotaged
        return true;
    const Packet *p = shared_.net.test(message.native);
    if (p)
        fill(message, *p);
    return p;
}

void SimMpi::deliver(Receive &r, const Drained &message)
{
    if (message.data.size() >= 8)
        memcpy(&static_cast<Request &>(r).payload, message.data.data(), 8);
}

} // namespace cryo::bookmark::sim
