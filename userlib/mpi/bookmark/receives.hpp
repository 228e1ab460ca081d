// SPDX-License-Identifier: Apache-2.0
//
// The receiving side of one rank: posted receives in the order of posting, probes, matched probes,
// and the drained messages that all of them look at before the library is asked.
//
//     receives.post(r);                        // MPI_Irecv, MPI_Start, the first half of MPI_Recv
//     while (!receives.test(r)) ...            // MPI_Test, MPI_Wait
//     r.arrival.source, r.arrival.truncated    // what the status says
//
// drain() may be called at any moment, also while receives are posted: it takes only what no
// posted receive matched when it arrived, and whatever is posted later looks here first. That, and
// withdrawing the youngest receive first, is why no message is overtaken (docs/bookmark.md).
//
// Calls must not overlap. A program with several threads in MPI holds the wrappers' lock.
#pragma once

#include "mpi/bookmark/mpi.hpp"

namespace cryo::bookmark {

class Receives
{
  public:
    Receives(Mpi &mpi, std::pmr::memory_resource *memory);
    Receives(const Receives &) = delete;
    Receives &operator=(const Receives &) = delete;

    // What the program does.
    void post(Receive &receive);
    bool test(Receive &receive);   // true when done or cancelled
    bool cancel(Receive &receive); // true: it will never complete; false: its message is there
    bool probe(Comm &comm, int source, int tag, Arrival &arrival);
    bool mprobe(Comm &comm, int source, int tag, Matched &matched);
    void receive_matched(Matched &matched, Receive &receive);

    // The quick way, for wrappers that ask the library themselves: posted() after its own receive
    // began, which only one for which there is no drained message may; completed() when it says
    // that a posted one is done; truncated() when one was that was never posted here.
    static bool has(Comm &comm, int source, int tag);
    void posted(Receive &receive);
    void completed(Receive &receive, const Arrival &arrival) { finish_native(receive, arrival); }
    void truncated() { bytes_known_ = false; }

    // What a checkpoint does.
    void drain(Comm &comm); // takes what has arrived and nobody waits for
    void sweep();           // completes, and counts, what has arrived for posted receives
    void absorb();          // takes what matched probes hold
    void withdraw();        // takes back what is posted; absorbs
    void withdraw_freed();  // of freed communicators, too, when nothing more can come
    void repost();          // in the order of posting, drained messages first
    bool quiet() const;     // nothing posted, nothing arriving
    bool is_arriving(const Comm &comm) const;

    // False when a truncated receive hid how long its message was.
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
    Messages held_;  // drained messages that a receive or a matched probe has got
    Messages spare_; // at most one, for the next message
    struct Arriving {
        Comm *comm;
        Drained *message;
    };
    std::pmr::vector<Arriving> arriving_;
    Receive *first_ = nullptr, *last_ = nullptr;
    Matched *matched_ = nullptr; // those that the library still has
    bool bytes_known_ = true;
};

} // namespace cryo::bookmark
