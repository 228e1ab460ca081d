// SPDX-License-Identifier: Apache-2.0
//
// One rank's view of a communicator: messages and bytes sent to and received from each peer since
// the job began or was last restarted, the number of collectives this rank has entered, and the
// messages a drain took out of the MPI library that the program has not asked for yet.
//
//     comm.sent(dest, bytes);            // in MPI_Send, before the library's own send
//
// sent() and received() are the hot path: two loads find the peer's pair of counters, then two adds
// follow. With one thread in MPI these are plain; with Threads::many they are atomic.
// Counters are allocated for 64 peers at a time, when the first of those peers is used.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory_resource>
#include <span>
#include <vector>

namespace cryo::bookmark {

using WorldRank = uint32_t; // a rank in the job (MPI_COMM_WORLD), whichever communicator names it
using CommId = uint64_t;    // identical at all members, never reused within a job

inline constexpr int kAnySource = -1;
inline constexpr int kAnyTag = -1;

// The id of a communicator, which every member can compute locally. `ordinal` is the parent's clock
// at the collective that created it; `discriminator` separates communicators created by the same
// collective (MPI_Comm_split): the world rank of the new communicator's rank 0.
CommId derive_comm_id(CommId parent, uint64_t ordinal, uint64_t discriminator);

enum class Threads : uint8_t { one, many };

struct Tally {
    uint64_t messages = 0;
    uint64_t bytes = 0;
    Tally &operator+=(const Tally &other)
    {
        messages += other.messages;
        bytes += other.bytes;
        return *this;
    }
    bool operator==(const Tally &) const = default;
};

// A message taken out of the MPI library, in packed form. Its place in the receive order is fixed
// when it is taken, even if its data is still arriving.
struct Drained {
    explicit Drained(std::pmr::memory_resource *memory) : data(memory) {}
    int source = 0; // rank in the communicator
    int tag = 0;
    bool complete = false;
    uint64_t native = 0; // the library's request while the data arrives; used only by Mpi
    std::pmr::vector<uint8_t> data;
};

class Comm
{
  public:
    // `peers` maps each rank that messages are addressed to onto its world rank: the communicator's
    // group, or the remote group of an inter-communicator. Empty: rank i is world rank i.
    // `members` is the number of participants in its collectives (both groups of an
    // inter-communicator).
    Comm(CommId id, uint32_t peer_count, std::span<const WorldRank> peers, uint32_t members,
         Threads threads, std::pmr::memory_resource *memory);
    ~Comm();
    Comm(const Comm &) = delete;
    Comm &operator=(const Comm &) = delete;

    void sent(int peer, uint64_t bytes) { add(sent_, peer, bytes); }
    void received(int peer, uint64_t bytes) { add(received_, peer, bytes); }

    // Undoes sent() for a send that was cancelled successfully.
    void unsent(int peer, uint64_t bytes);

    CommId id() const { return id_; }
    uint32_t members() const { return members_; }
    uint32_t peer_count() const { return peer_count_; }
    WorldRank world(int peer) const
    {
        return peers_.empty() ? WorldRank(peer) : peers_[size_t(peer)];
    }

    // Calls each(world rank, sent, received) for every peer with a non-zero count.
    template <class Each>
    void for_used(const Each &each) const
    {
        for (uint32_t page = 0; page < pages(); page++) {
            const Page *s = sent_[page].load(std::memory_order_acquire);
            const Page *r = received_[page].load(std::memory_order_acquire);
            for (uint32_t i = 0; i < kPagePeers && (s || r); i++) {
                Tally out = s ? s->slots[i].tally() : Tally{};
                Tally in = r ? r->slots[i].tally() : Tally{};
                if (out.messages || in.messages)
                    each(world(int(page * kPagePeers + i)), out, in);
            }
        }
    }
    Tally sent_to(WorldRank rank) const { return sum(sent_, rank); }
    Tally received_from(WorldRank rank) const { return sum(received_, rank); }
    void forget_counts(); // after a restart: every rank's counts begin again at zero

    // Collectives entered so far; during a checkpoint, `target` is the highest clock of any member.
    std::atomic<uint64_t> clock{0};
    uint64_t target = 0;

    std::pmr::list<Drained> drained; // in the order of arrival

    void *user = nullptr; // for Mpi: the library's communicator
    bool lasting = false; // files opened with it may outlive it and still use its clock

    // The program has freed it, or is about to. Messages for its pending requests are in flight or
    // will still be sent; no new request can be made on it.
    bool freed = false;
    // Number of requests and matched messages that refer to it.
    std::atomic<uint32_t> requests{0};

  private:
    static constexpr uint32_t kPagePeers = 64;
    struct Slot {
        std::atomic<uint64_t> messages{0};
        std::atomic<uint64_t> bytes{0};
        Tally tally() const
        {
            return {messages.load(std::memory_order_relaxed),
                    bytes.load(std::memory_order_relaxed)};
        }
    };
    struct Page {
        Slot slots[kPagePeers];
    };
    using Directory = std::atomic<Page *> *;

    uint32_t pages() const { return (peer_count_ + kPagePeers - 1) / kPagePeers; }
    void add(Directory directory, int peer, uint64_t bytes)
    {
        Page *page = directory[uint32_t(peer) / kPagePeers].load(std::memory_order_acquire);
        if (!page) [[unlikely]]
            page = make_page(directory[uint32_t(peer) / kPagePeers]);
        Slot &slot = page->slots[uint32_t(peer) % kPagePeers];
        bump(slot.messages, 1);
        bump(slot.bytes, bytes);
    }
    void bump(std::atomic<uint64_t> &counter, uint64_t by) const
    {
        if (threads_ == Threads::many)
            counter.fetch_add(by, std::memory_order_relaxed);
        else
            counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
    }
    Page *make_page(std::atomic<Page *> &place);
    Directory make_directory();
    void drop_directory(Directory directory);
    Tally sum(Directory directory, WorldRank rank) const;

    CommId id_;
    uint32_t peer_count_;
    uint32_t members_;
    Threads threads_;
    std::pmr::memory_resource *memory_;
    std::pmr::vector<WorldRank> peers_;
    Directory sent_;
    Directory received_;
};

} // namespace cryo::bookmark
