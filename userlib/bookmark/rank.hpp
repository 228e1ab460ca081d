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
//         rank.collectives().enter(comm);
//         int rc = real_allreduce(...);           // a signal here may call rank.handle()
//         rank.collectives().leave();
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
//             if (rank.phase() == Phase::drained)
//                 rank.saved(take_the_image());   // returns twice; then restarted() comes first
//             wait_for_the_link();                // or for the library
//         }
//     }
//
// Rank has the phases of a checkpoint. Its parts are Communicators (all counts), Receives,
// Collectives (clocks and epochs), Needs (who waits for whom), Versions (checkpoints that the
// program asked for), and Reports (what the tree is told).
//
// Without a checkpoint the cost is the counters, one clock, and one load of a flag that is false.
// Calls must not overlap: a signal handler that interrupted a call of this class, or of one of its
// parts, must leave handle() to the wrapper. With Threads::many only pending() and a communicator's
// sent() and received() may be called by several threads at once; the wrappers serialize everything
// else with a lock, which a thread must release while it waits inside the library.
#pragma once

#include <optional>

#include "bookmark/collectives.hpp"
#include "bookmark/communicators.hpp"
#include "bookmark/needs.hpp"
#include "bookmark/phase.hpp"
#include "bookmark/receives.hpp"
#include "bookmark/reports.hpp"
#include "bookmark/versions.hpp"
#include "bookmark/wire.hpp"

namespace cryo::bookmark {

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
    using Phase = bookmark::Phase;

    Rank(const Config &config, Link &link, Mpi &mpi);

    // Communicators. Call made() after the library's own call, and freed() as well: freeing counts
    // as a collective that does not wait. The Comm is deleted once nothing refers to it.
    Comm &made(CommId id, uint32_t peer_count, std::span<const WorldRank> peers, uint32_t members);
    void freed(Comm &comm);
    // Like freed(), for a release that is not collective: other members may keep the communicator.
    void dropped(Comm &comm);

    // What the program receives, and its collectives, epochs and requests for checkpoints.
    Receives &receives() { return receives_; }
    Collectives &collectives() { return collectives_; }
    Versions &versions() { return versions_; }
    const Versions &versions() const { return versions_; }
    // Drained, and not yet received by the program.
    uint64_t drained_messages() const { return communicators_.drained_messages(); }

    bool pending() const { return pending_.load(std::memory_order_relaxed); }
    Phase phase() const { return phase_; }
    uint32_t epoch() const { return reports_.epoch(); }

    // A loop that waits for a message, or an unsuccessful test or probe, names the awaited source.
    void waits_for(Comm &comm, int source);
    void waits_no_more() { needs_.withdraw(); }

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
    void begin(uint32_t epoch);
    void end(bool saved);
    void drain_all();
    void serve_cut();
    void send_ready();

    Reports reports_;
    Mpi &mpi_;
    Communicators communicators_;
    Receives receives_;

    std::atomic<bool> pending_{false};
    Phase phase_ = Phase::idle;
    Collectives collectives_;
    Needs needs_;
    Versions versions_;
    std::optional<uint32_t> next_epoch_; // requested while resuming
    uint32_t acks_ = 0;                  // tree messages that the next ready must acknowledge
    std::optional<uint32_t> ready_for_;  // value of acks_ in the last ready
    Tally expected_;
    bool withdrawn_ = false;
};

} // namespace cryo::bookmark
