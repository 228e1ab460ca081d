// SPDX-License-Identifier: Apache-2.0
//
// One rank's part in a checkpoint: when it must run on, when it must stop, what it drains, and
// when its image may be taken. docs/bookmark.md describes the protocol and why it is correct.
//
// The wrappers around the MPI library use it like this:
//
//     int MPI_Send(...)                           // anything that starts an operation
//     {
//         stand_still();
//         comm.sent(dest, bytes);                 // before the library's own send
//         return real_send(...);
//     }
//     int MPI_Allreduce(...)                      // blocking collectives, MPI_Comm_dup, _free ...
//     {
//         stand_still();
//         rank.enter(comm);
//         int rc = real_allreduce(...);           // a signal here may call rank.handle()
//         rank.leave();
//         stand_still();
//         return rc;
//     }
//     int MPI_Wait(...)                           // and every other loop that waits
//     {
//         while (!rank.receives().test(receive)) {
//             stand_still();
//             if (rank.pending())
//                 rank.waits_for(comm, source);
//         }
//         if (rank.pending())
//             rank.waits_no_more();
//     }
//     void stand_still()                          // also the signal handler, when outside MPI
//     {
//         while (rank.pending() && rank.must_hold()) {
//             rank.serve();
//             if (rank.phase() == Rank::Phase::drained)
//                 rank.saved(take_the_image());   // returns twice; then restarted() comes first
//             wait_for_the_link();                // or for the library
//         }
//     }
//
// Without a checkpoint the cost is the counters, one clock, and one load of a flag that is false.
// Calls must not overlap: a signal handler that interrupted a call of this class must leave
// handle() to the wrapper. With Threads::many only pending() and a communicator's sent() and
// received() may be called by several threads at once; the wrappers serialize everything else with
// a lock, which a thread must release while it waits inside the library.
#pragma once

#include <map>
#include <optional>

#include "bookmark/receives.hpp"
#include "bookmark/wire.hpp"

namespace cryo::bookmark {

// The connection to the tree. send() queues and never blocks; a signal handler may call it.
class Link
{
  public:
    Link() = default;
    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;
    virtual ~Link() = default;
    virtual void send(Bytes message) = 0;
};

class Rank
{
  public:
    struct Config {
        WorldRank self = 0;
        uint32_t ranks = 1; // of the job
        Threads threads = Threads::one;
        // Source of all memory. It is used while the program is stopped, perhaps inside malloc, so
        // it must not be the program's heap.
        std::pmr::memory_resource *memory = std::pmr::get_default_resource();
    };
    enum class Phase : uint8_t {
        idle,     // no checkpoint
        asked,    // a checkpoint is requested: the rank runs on, or has stopped and is ready
        cut,      // all ranks have stopped: this one drains
        drained,  // nothing is in flight to or from this rank: the image may be taken
        saved,    // waits for the other ranks
        resuming, // must repost its receives
    };

    Rank(const Config &config, Link &link, Mpi &mpi);

    // Communicators. Call made() after the library's own call, and freed() as well: freeing counts
    // as a collective that does not wait. The Comm is deleted once nothing refers to it.
    Comm &made(CommId id, uint32_t peer_count, std::span<const WorldRank> peers, uint32_t members);
    void freed(Comm &comm);
    // Like freed(), for a release that is not collective: other members may keep the communicator.
    void dropped(Comm &comm);
    Receives &receives() { return receives_; }

    bool pending() const { return pending_.load(std::memory_order_relaxed); }
    Phase phase() const { return phase_; }
    uint32_t epoch() const { return epoch_; }

    // Collectives: enter() before a blocking one and leave() after it; start() before a
    // non-blocking one. An epoch is open while it holds incomplete operations or a lock.
    // refused(), before leave(): the library rejected the arguments, so no collective took place.
    void enter(Comm &comm);
    void leave();
    void start(Comm &comm);
    void refused(Comm &comm);
    void open_epoch() { epochs_++; }
    void close_epoch() { epochs_--; }

    // A loop that waits for a message, or an unsuccessful test or probe, names the awaited source.
    void waits_for(Comm &comm, int source);
    void waits_no_more();

    // Checkpoints requested by the program. global_ckpt() is ask(). MPI_Ckpt() is
    //
    //     uint64_t version = rank.begin_version();
    //     while (rank.version(version) == Version::open)
    //         stand_still(), wait_for_the_link();
    //
    // All ranks are inside this call when a version is saved, unless a message or a collective
    // straddles it: then a rank returns early (straddled) and is saved wherever it is by then.
    enum class Version : uint8_t { open, saved, straddled, failed };
    void ask();
    uint64_t begin_version();
    Version version(uint64_t number);
    uint64_t cuts() const { return cuts_; }         // cuts this rank has been through
    uint32_t restarts() const { return restarts_; } // lets the program ask whether it was restarted
    uint64_t drained_messages() const;              // drained, and not yet received by the program
    uint64_t versions() const { return versions_->clock; }

    // True when the calling thread must stop. It then calls serve() repeatedly.
    bool must_hold() const;
    void serve();
    void saved(bool ok); // in phase drained
    void decline();      // nothing can be saved here; the tree reports when the checkpoint is over
    void restarted();    // in the restored copy, once the library and communicators are recreated

    // Processes a message from the tree. Never calls Mpi.
    void handle(Bytes message);
    StateEntry state() const; // what this rank is doing, for status reports

  private:
    struct Needed { // another rank needs messages from this one until more than `sent` went to it
        WorldRank by;
        CommId comm;
        uint64_t sent;
    };

    void begin(uint32_t epoch);
    void end(bool saved);
    void tick(Comm &comm);
    void forget_freed();
    void run_to_targets(const Message &message);
    void needed(const Need &need);
    bool is_needed(bool by_name = false) const;
    void drain_all();
    void serve_cut();
    void send_ready();
    void send(const Message &message) { link_.send(pack(message, memory_)); }
    void announce(const Comm &comm, uint32_t heard);
    Tally sent_to(WorldRank rank) const;
    Tally received_from(WorldRank rank) const;
    Tally received() const;
    Message message(MessageType type) const { return Message(type, epoch_, memory_); }

    WorldRank self_;
    Threads threads_;
    std::pmr::memory_resource *memory_;
    Link &link_;
    Mpi &mpi_;
    std::pmr::map<CommId, Comm> comms_;
    struct Traffic {
        Tally sent, received;
    };
    std::pmr::map<WorldRank, Traffic> retired_; // traffic of communicators that no longer exist
    struct Gone {
        CommId id;
        uint64_t clock;
        uint32_t members;
    };
    // Freed here, with other members; only after a cut have they all freed them.
    std::pmr::vector<Gone> gone_;
    uint32_t lingering_ = 0; // freed communicators that are still referred to
    Receives receives_;

    std::atomic<bool> pending_{false};
    Phase phase_ = Phase::idle;
    uint32_t epoch_ = 0;
    std::optional<uint32_t> next_epoch_; // requested while resuming
    std::atomic<uint32_t> inside_{0};    // blocking collectives being executed
    std::atomic<uint32_t> epochs_{0};
    CommId inside_comm_ = 0;            // for status reports
    uint32_t behind_ = 0;               // communicators whose clock is below its target
    uint32_t acks_ = 0;                 // tree messages that the next ready must acknowledge
    std::optional<uint32_t> ready_for_; // value of acks_ in the last ready
    std::pmr::vector<Needed> needed_;
    std::pmr::vector<Need> needs_; // announced to the tree and not withdrawn
    Tally expected_;
    bool withdrawn_ = false;

    Comm *versions_; // a communicator of all ranks without messages; its collective is MPI_Ckpt
    uint64_t saved_version_ = 0;
    uint64_t failed_version_ = 0;
    uint64_t cuts_ = 0;
    uint32_t restarts_ = 0;
};

} // namespace cryo::bookmark
