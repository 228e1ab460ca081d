// SPDX-License-Identifier: Apache-2.0
#include "net.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>

namespace cryo::bookmark::sim {

void Reference::arrive(const Packet &packet)
{
    Queues &q = queues_[{packet.to, packet.comm}];
    auto found = std::find_if(q.posted.begin(), q.posted.end(),
                              [&](const Posted &p) { return matches(p.source, p.tag, packet); });
    if (found == q.posted.end()) {
        q.unexpected.push_back(packet);
        return;
    }
    got_[found->receive] = packet.id;
    q.posted.erase(found);
}

void Reference::post(uint64_t receive, WorldRank at, CommId comm, int source, int tag)
{
    if (uint64_t packet = take(at, comm, source, tag))
        got_[receive] = packet;
    else
        queues_[{at, comm}].posted.push_back({receive, source, tag});
}

bool Reference::cancel(uint64_t receive, WorldRank at, CommId comm)
{
    return std::erase_if(queues_[{at, comm}].posted,
                         [&](const Posted &p) { return p.receive == receive; }) > 0;
}

uint64_t Reference::take(WorldRank at, CommId comm, int source, int tag)
{
    Queues &q = queues_[{at, comm}];
    auto found = std::find_if(q.unexpected.begin(), q.unexpected.end(),
                              [&](const Packet &p) { return matches(source, tag, p); });
    if (found == q.unexpected.end())
        return 0;
    uint64_t id = found->id;
    q.unexpected.erase(found);
    return id;
}

uint64_t Reference::got(uint64_t receive) const
{
    auto at = got_.find(receive);
    return at == got_.end() ? 0 : at->second;
}

uint64_t Net::send(Packet packet)
{
    packet.send = next_++;
    if (packet.rendezvous)
        open_sends_[packet.send] = packet.from;
    Channel channel{packet.from, packet.to, packet.comm};
    auto &queue = flying_[channel];
    if (queue.empty())
        busy_.push_back(channel);
    queue.push_back(packet);
    return packet.send;
}

void Net::deliver(size_t which)
{
    auto at_channel = flying_.find(busy_[which]);
    Packet packet = at_channel->second.front();
    at_channel->second.pop_front();
    if (at_channel->second.empty()) {
        flying_.erase(at_channel);
        busy_[which] = busy_.back();
        busy_.pop_back();
    }
    reference.arrive(packet);
    Place &place = places_[{packet.to, packet.comm}];
    for (auto it = place.posted.begin(); it != place.posted.end(); ++it) {
        uint64_t receive = *it;
        if (matches(at(receive).source, at(receive).tag, packet)) {
            place.posted.erase(it);
            match(receive, packet);
            return;
        }
    }
    place.unexpected.push_back(packet);
}

void Net::match(uint64_t receive, const Packet &packet)
{
    Received &r = at(receive);
    r.matched = true;
    r.packet = packet;
    if (packet.rendezvous)
        transferring_.push_back(receive);
    else
        r.complete = true;
}

void Net::transfer(size_t which)
{
    if (which >= transferring_.size()) {
        auto send = confirming_.begin() + long(which - transferring_.size());
        open_sends_.erase(*send);
        confirming_.erase(send);
        return;
    }
    uint64_t receive = transferring_[which];
    transferring_[which] = transferring_.back();
    transferring_.pop_back();
    at(receive).complete = true;
    confirming_.push_back(at(receive).packet.send);
}

Net::Received &Net::at(uint64_t receive)
{
    auto it = receives_.find(receive);
    if (it == receives_.end())
        throw std::logic_error("a request of an earlier library, or one that is gone, was used");
    return it->second;
}

uint64_t Net::post(WorldRank where, CommId comm, int source, int tag)
{
    uint64_t receive = next_++;
    receives_[receive] = {.at = where, .comm = comm, .source = source, .tag = tag, .packet = {}};
    Place &place = places_[{where, comm}];
    auto found = std::find_if(place.unexpected.begin(), place.unexpected.end(),
                              [&](const Packet &p) { return matches(source, tag, p); });
    if (found == place.unexpected.end()) {
        place.posted.push_back(receive);
    } else {
        Packet packet = *found;
        place.unexpected.erase(found);
        match(receive, packet);
    }
    return receive;
}

const Packet &Net::packet(uint64_t receive)
{
    return at(receive).packet;
}

const Packet *Net::test(uint64_t receive)
{
    Received &r = at(receive);
    if (!r.complete)
        return nullptr;
    last_ = r.packet;
    receives_.erase(receive);
    return &last_;
}

Net::Cancel Net::cancel(uint64_t receive)
{
    Received &r = at(receive);
    if (r.complete)
        return Cancel::done;
    if (r.matched)
        return Cancel::arriving;
    std::erase(places_[{r.at, r.comm}].posted, receive);
    receives_.erase(receive);
    return Cancel::cancelled;
}

const Packet *Net::probe(WorldRank where, CommId comm, int source, int tag) const
{
    auto place = places_.find({where, comm});
    if (place == places_.end())
        return nullptr;
    for (const Packet &p : place->second.unexpected)
        if (matches(source, tag, p))
            return &p;
    return nullptr;
}

uint64_t Net::take(WorldRank where, CommId comm, int source, int tag)
{
    return probe(where, comm, source, tag) ? post(where, comm, source, tag) : 0;
}

uint64_t Net::take_newest(WorldRank where, CommId comm)
{
    auto &unexpected = places_[{where, comm}].unexpected;
    if (unexpected.empty())
        return 0;
    Packet packet = unexpected.back();
    unexpected.pop_back();
    uint64_t receive = next_++;
    receives_[receive] = {
        .at = where, .comm = comm, .source = packet.source, .tag = packet.tag, .packet = {}};
    match(receive, packet);
    return receive;
}

void Net::enter(WorldRank rank, CommId comm, uint64_t number, Collective kind, WorldRank root,
                uint32_t members)
{
    Gathering &g = gatherings_.try_emplace({comm, number}, Gathering{kind, root, members, {}, {}})
                       .first->second;
    if (g.kind != kind || g.root != root || !g.entered.insert(rank).second)
        throw std::logic_error("ranks do not enter the same collectives");
}

bool Net::complete(WorldRank rank, CommId comm, uint64_t number)
{
    auto it = gatherings_.find({comm, number});
    if (it == gatherings_.end())
        return true;
    Gathering &g = it->second;
    bool all = g.entered.size() == g.members;
    bool done = all || (g.kind == Collective::bcast && g.entered.contains(g.root)) ||
                (g.kind == Collective::reduce && rank != g.root);
    if (!done)
        return false;
    g.left.insert(rank);
    if (g.left.size() == g.members)
        gatherings_.erase(it);
    return true;
}

bool Net::settled(WorldRank rank)
{
    bool all = std::none_of(open_sends_.begin(), open_sends_.end(),
                            [&](const auto &send) { return send.second == rank; });
    std::vector<CollectiveId> mine;
    for (const auto &[id, g] : gatherings_)
        if (g.entered.contains(rank) && !g.left.contains(rank))
            mine.push_back(id);
    for (const CollectiveId &id : mine)
        all &= complete(rank, id.first, id.second);
    return all;
}

bool Net::busy_with(WorldRank rank) const
{
    return std::any_of(busy_.begin(), busy_.end(),
                       [&](const Channel &c) { return std::get<1>(c) == rank; }) ||
           std::any_of(places_.begin(), places_.end(),
                       [&](const auto &p) {
                           return p.first.first == rank &&
                                  !(p.second.unexpected.empty() && p.second.posted.empty());
                       }) ||
           std::any_of(receives_.begin(), receives_.end(),
                       [&](const auto &r) { return r.second.at == rank; }) ||
           std::any_of(open_sends_.begin(), open_sends_.end(),
                       [&](const auto &send) { return send.second == rank; }) ||
           std::any_of(gatherings_.begin(), gatherings_.end(), [&](const auto &g) {
               return g.second.entered.contains(rank) && !g.second.left.contains(rank);
           });
}

std::string Net::lost_at_restart() const
{
    size_t waiting = 0;
    size_t posted = 0;
    for (const auto &[key, place] : places_) {
        waiting += place.unexpected.size();
        posted += place.posted.size();
    }
    if (busy_.empty() && !waiting && !posted && receives_.empty() && open_sends_.empty() &&
        transferring_.empty() && gatherings_.empty())
        return "";
    return fmt::format("{} channels with messages, {} messages not received, {} posted and {} "
                       "other receives, {} sends, {} transfers, {} collectives",
                       busy_.size(), waiting, posted, receives_.size() - posted, open_sends_.size(),
                       transferring_.size(), gatherings_.size());
}

void Net::restart()
{
    flying_.clear();
    busy_.clear();
    places_.clear();
    receives_.clear();
    open_sends_.clear();
    transferring_.clear();
    confirming_.clear();
    gatherings_.clear();
}

} // namespace cryo::bookmark::sim
