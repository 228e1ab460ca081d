// SPDX-License-Identifier: Apache-2.0
//
// An MPI library reduced to what the bookmark exchange can see of it: messages that take time, keep
// their order per pair of ranks and communicator only, and match posted receives by MPI's rules,
// eagerly or by rendezvous; and collectives that complete at a rank when MPI allows it. The caller
// decides what happens next.
//
//     Net net;
//     uint64_t send = net.send({...});
//     net.deliver(i);                  // one of net.channels() hands over its first message
//     net.transfer(i);                 // one rendezvous completes for its receiver or its sender
//
// A Reference runs beside it: plain matching lists, fed with the same arrivals and the same calls
// of the program but without checkpoints. Each receive must get the same message as there.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "bookmark/mpi.hpp"

namespace cryo::bookmark::sim {

struct Packet {
    uint64_t id = 0; // sender and its send's ordinal: the payload
    WorldRank from = 0;
    WorldRank to = 0;
    CommId comm = 0;
    int source = 0; // rank of the sender in the communicator
    int tag = 0;
    uint64_t bytes = 8;
    bool rendezvous = false;
    uint64_t send = 0; // the sender's request
};

inline bool matches(int source, int tag, const Packet &p)
{
    return (source == kAnySource || source == p.source) && (tag == kAnyTag || tag == p.tag);
}

class Reference
{
  public:
    void arrive(const Packet &packet);
    void post(uint64_t receive, WorldRank at, CommId comm, int source, int tag);
    bool cancel(uint64_t receive, WorldRank at, CommId comm);      // true: it had not matched
    uint64_t take(WorldRank at, CommId comm, int source, int tag); // mprobe: packet, or 0
    uint64_t got(uint64_t receive) const;                          // packet, or 0

  private:
    struct Posted {
        uint64_t receive;
        int source, tag;
    };
    struct Queues {
        std::deque<Posted> posted;
        std::deque<Packet> unexpected;
    };
    std::map<std::pair<WorldRank, CommId>, Queues> queues_;
    std::unordered_map<uint64_t, uint64_t> got_;
};

enum class Collective : uint8_t { barrier, bcast, reduce };

class Net
{
  public:
    Reference reference;

    uint64_t send(Packet packet); // the request
    bool sent(uint64_t request) const { return !open_sends_.contains(request); }

    size_t channels() const { return busy_.size(); }
    void deliver(size_t channel);
    size_t transfers() const { return transferring_.size() + confirming_.size(); }
    void transfer(size_t which);

    // The library's side of class Mpi, for the rank `at`.
    uint64_t post(WorldRank at, CommId comm, int source, int tag);
    const Packet &packet(uint64_t receive); // of a receive that has matched
    const Packet *test(uint64_t receive);   // null unless complete; gone at the next call
    enum class Cancel : uint8_t { cancelled, done, arriving };
    Cancel cancel(uint64_t receive);
    const Packet *probe(WorldRank at, CommId comm, int source, int tag) const;
    uint64_t take(WorldRank at, CommId comm, int source, int tag); // receive that has matched

    uint64_t take_newest(WorldRank at, CommId comm); // which no real library does

    // Collectives are numbered by the clock with which they are entered.
    void enter(WorldRank rank, CommId comm, uint64_t number, Collective kind, WorldRank root,
               uint32_t members);
    bool complete(WorldRank rank, CommId comm, uint64_t number); // true: the rank has left
    bool settled(WorldRank rank);

    // Whether anything is in flight to this rank, or unfinished at it: its image would be wrong.
    bool busy_with(WorldRank rank) const;
    // Describes what a restart would lose; empty when nothing.
    std::string lost_at_restart() const;
    void restart(); // a fresh library

  private:
    struct Received {
        WorldRank at;
        CommId comm;
        int source, tag;
        bool matched = false, complete = false;
        Packet packet;
    };
    struct Place {
        std::deque<uint64_t> posted;
        std::deque<Packet> unexpected;
    };
    struct Gathering {
        Collective kind;
        WorldRank root;
        uint32_t members;
        std::set<WorldRank> entered, left;
    };
    using Channel = std::tuple<WorldRank, WorldRank, CommId>;
    using CollectiveId = std::pair<CommId, uint64_t>;

    void match(uint64_t receive, const Packet &packet);
    Received &at(uint64_t receive);

    std::map<Channel, std::deque<Packet>> flying_;
    std::vector<Channel> busy_;
    std::map<std::pair<WorldRank, CommId>, Place> places_;
    std::unordered_map<uint64_t, Received> receives_;
    std::unordered_map<uint64_t, WorldRank> open_sends_;
    std::vector<uint64_t> transferring_; // receives
    std::vector<uint64_t> confirming_;   // sends whose receivers have the message
    std::map<CollectiveId, Gathering> gatherings_;
    uint64_t next_ = 1;
    Packet last_;
};

} // namespace cryo::bookmark::sim
