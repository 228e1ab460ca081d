// SPDX-License-Identifier: Apache-2.0
//
// One rank's part in a checkpoint: when it must run on, when it stands still, what it drains, and
// when its image may be taken. The protocol and why it is right: docs/bookmark.md.
//
// The wrappers around the MPI library use it so:
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
// Without a checkpoint all of it costs the counters, one clock, and one load of a flag that is
// false. Calls must not overlap: a signal handler that interrupted a call of this class leaves
// handle() to the wrapper. With Threads::many only pending() and a communicator's sent() and
// received() may be called by several threads at once; for all else the wrappers have a lock, of
// which a thread that waits inside the library must let go.
#pragma once

#include <map>
#include <optional>

#include "mpi/bookmark/receives.hpp"
#include "mpi/bookmark/wire.hpp"

namespace cryo::bookmark {

// The way to the tree. send() never blocks (it queues) and may be called in a signal handler.
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
        // Where all memory comes from. It is used while the program stands still, perhaps inside
        // malloc: not from the program's heap.
        std::pmr::memory_resource *memory = std::pmr::get_default_resource();
    };
    enum class Phase : uint8_t {
        idle,     // no checkpoint
        asked,    // one is wanted: runs on, or stands still and is ready
        cut,      // all stand still: drains
        drained,  // nothing is in flight to or from here: the image may be taken
        saved,    // waits for the others
        resuming, // posts its receives again
    };

    Rank(const Config &config, Link &link, Mpi &mpi);

    // Communicators. made() after the library's own call; freed() too: it counts as a collective
    // that nobody waits in. The Comm goes when nothing refers to it any more.
    Comm &made(CommId id, uint32_t peer_count, std::span<const WorldRank> peers, uint32_t members);
    void freed(Comm &comm);
    // The same for what is no collective: other members may keep theirs.
    void dropped(Comm &comm);
    Receives &receives() { return receives_; }

    bool pending() const { return pending_.load(std::memory_order_relaxed); }
    Phase phase() const { return phase_; }
    uint32_t epoch() const { return epoch_; }

    // Collectives: enter() before a blocking one and leave() after it; start() before a
    // non-blocking one. An epoch is open while it holds incomplete operations or a lock.
    // refused(), before leave(): the library has said at once that it is none, for its arguments.
    void enter(Comm &comm);
    void leave();
    void start(Comm &comm);
    void refused(Comm &comm);
    void open_epoch() { epochs_++; }
    void close_epoch() { epochs_--; }

    // A loop that waits for a message (or asked in vain: MPI_Test, MPI_Iprobe) says for whose.
    void waits_for(Comm &comm, int source);
    void waits_no_more();

    // A program that asks for checkpoints. global_ckpt() is ask(). MPI_Ckpt() is
    //
    //     uint64_t version = rank.begin_version();
    //     while (rank.version(version) == Version::open)
    //         stand_still(), wait_for_the_link();
    //
    // All ranks are in the same call when a version is saved, unless a message or a collective
    // straddles the call: then a rank is let out of it before (straddled), saved where it is then.
    enum class Version : uint8_t { open, saved, straddled, failed };
    void ask();
    uint64_t begin_version();
    Version version(uint64_t number);
    uint64_t cuts() const { return cuts_; }         // that this rank has come through
    uint32_t restarts() const { return restarts_; } // "was I restarted?"
    uint64_t drained_messages() const;              // sent before the cut, not received by it
    uint64_t versions() const { return versions_->clock; }

    // True when the calling thread may not run on. Then serve(), again and again.
    bool must_hold() const;
    void serve();
    void saved(bool ok); // in phase drained
    void decline();      // there will be nothing to save; the tree says when it is over
    void restarted();    // in the restored copy, when the library and its communicators are anew

    // A message from the tree. Never calls Mpi.
    void handle(Bytes message);
    StateEntry state() const; // what this rank is doing, for people

  private:
    struct Needed { // by another rank, until more than `sent` messages have gone to it
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
    std::pmr::map<WorldRank, Traffic> retired_; // of communicators that are no more
    struct Gone {
        CommId id;
        uint64_t clock;
        uint32_t members;
    };
    std::pmr::vector<Gone>
        gone_;               // freed here; at other members only when a cut has come to its end
    uint32_t lingering_ = 0; // freed, and still referred to
    Receives receives_;

    std::atomic<bool> pending_{false};
    Phase phase_ = Phase::idle;
    uint32_t epoch_ = 0;
    std::optional<uint32_t> next_epoch_; // asked for while resuming
    std::atomic<uint32_t> inside_{0};    // blocking collectives
    std::atomic<uint32_t> epochs_{0};
    CommId inside_comm_ = 0;            // for people
    uint32_t behind_ = 0;               // communicators whose clock is below its target
    uint32_t acks_ = 0;                 // messages of the tree that ready must answer
    std::optional<uint32_t> ready_for_; // the acks that the last ready had
    std::pmr::vector<Needed> needed_;
    std::pmr::vector<Need> needs_; // told to the tree and not taken back
    Tally expected_;
    bool withdrawn_ = false;

    Comm *versions_; // a communicator of all that has no messages; its collective is MPI_Ckpt
    uint64_t saved_version_ = 0;
    uint64_t failed_version_ = 0;
    uint64_t cuts_ = 0;
    uint32_t restarts_ = 0;
};

} // namespace cryo::bookmark
