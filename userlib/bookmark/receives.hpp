// SPDX-License-Identifier: Apache-2.0
//
// The receiving side of one rank: posted receives in posting order, probes, matched probes, and
// the drained messages, which all of these search before they ask the library.
//
//     receives.post(r);                        // MPI_Irecv, MPI_Start, the first half of MPI_Recv
//     while (!receives.test(r)) ...            // MPI_Test, MPI_Wait
//     r.arrival.source, r.arrival.truncated    // contents of the MPI_Status
//
// drain() may be called at any time, also while receives are posted: it takes only messages that
// no posted receive matched on arrival, and later receives search the drained messages first. This
// and withdrawing the youngest receive first keep messages from overtaking (docs/bookmark.md).
//
// Calls must not overlap. A program with several threads in MPI holds the wrapper layer's lock.
#pragma once

#include "bookmark/mpi.hpp"

namespace cryo::bookmark {

class Receives
{
  public:
    Receives(Mpi &mpi, std::pmr::memory_resource *memory);
    Receives(const Receives &) = delete;
    Receives &operator=(const Receives &) = delete;

    // Operations of the program.
    void post(Receive &receive);
    bool test(Receive &receive);   // true when done or cancelled
    bool cancel(Receive &receive); // true: cancelled; false: its message has arrived or matched
    bool probe(Comm &comm, int source, int tag, Arrival &arrival);
    bool mprobe(Comm &comm, int source, int tag, Matched &matched);
    void receive_matched(Matched &matched, Receive &receive);

    // Fast path, for wrappers that call the library themselves: posted() after the wrapper posted a
    // receive for which has() found no drained message; completed() when the library reports that
    // receive done or cancelled; truncated() when a receive that was never posted here was
    // truncated.
    static bool has(Comm &comm, int source, int tag);
    void posted(Receive &receive);
    void completed(Receive &receive, const Arrival &arrival) { finish_native(receive, arrival); }
    void truncated() { bytes_known_ = false; }

    // Operations of a checkpoint.
    void drain(Comm &comm); // takes messages that have arrived and match no posted receive
    void sweep();           // completes and counts posted receives whose message has arrived
    void absorb();          // takes the messages that matched probes hold
    void withdraw();        // withdraws posted receives, then absorb()
    void withdraw_freed();  // the same for freed communicators, once nothing more can arrive
    void repost();          // posts them again in order; drained messages match first
    bool quiet() const;     // true if nothing is posted or arriving
    bool is_arriving(const Comm &comm) const;

    // False after a truncated receive, which hides the length of its message.
    bool bytes_known() const { return bytes_known_; }
    void forget_counts() { bytes_known_ = true; }

  private:
    using Messages = std::pmr::list<Drained>;

    static Messages::iterator find(Comm &comm, int source, int tag);
    void withdraw(bool freed);
    void bind(Receive &receive, Drained &message);
    void finish_bound(Receive &receive);
    void finish_native(Receive &receive, const Arrival &arrival);
    bool arrived(Comm &comm, Drained &message);
    void link(Receive &receive);
    void unlink(Receive &receive);
    void unlink(Matched &matched);

    Mpi &mpi_;
    Messages held_;  // drained messages assigned to a receive or a matched probe
    Messages spare_; // at most one, for the next message
    struct Arriving {
        Comm *comm;
        Drained *message;
    };
    std::pmr::vector<Arriving> arriving_;
    Receive *first_ = nullptr, *last_ = nullptr;
    Matched *matched_ = nullptr; // matched messages that the library still holds
    bool bytes_known_ = true;
};

} // namespace cryo::bookmark
