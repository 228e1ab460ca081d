// SPDX-License-Identifier: Apache-2.0
//
// How requests begin and end. A request is complete either in the library, which the quick way of
// every wait and test sees first, or only here: a drained message was delivered, or the library's
// own request was completed by a checkpoint. Then `complete` is set and the status kept.
#pragma once

#include "mpi/rank/engine.hpp"

namespace cryo::mpi::rank {

// The quick way may be gone: the library knows all of this request. (An inactive one is null to
// it.) Requests of files are not for a library's loop over several: MPICH's, which are generalized
// ones of its own, are polled by MPI_Testall and its like once more after they are complete, and an
// assertion ends the program. Nor are persistent collectives, which MPICH's MPI_Testall takes for
// errors.
inline bool is_native(const Request &r)
{
    const bool for_one = r.use == Use::file || (r.use == Use::other && r.persistent);
    return !r.active || (!r.complete && r.use != Use::partitioned && !for_one &&
                         (r.use != Use::receive || r.state == bookmark::Receive::State::posted));
}

// A request may be waited for in a loop of the library while nothing is wanted; with several
// threads in MPI only while it is lent. Another thread that says what it waits for asks for every
// receive of this rank, but leaves alone what is lent: between the library's word that it is
// complete, and its handle gone, and our note of that, there is nobody to ask.
//
//     mark_lent(r);             // any number
//     if (may_lend() && is_native(r))
//         ...
//     give_back(r);
inline void mark_lent(Request &request)
{
    request.lent.store(true, std::memory_order_relaxed);
}
inline void give_back(Request &request)
{
    request.lent.store(false, std::memory_order_release);
}
// Who asks for all receives has raised `attention` before: either it is seen here, or who asks sees
// the marks.
inline bool may_lend()
{
    if (many)
        std::atomic_thread_fence(std::memory_order_seq_cst);
    return !attention;
}

// A new request's record, and its handle.
Request &make_request(Use use, bookmark::Comm *comm, int peer, int tag, const void *buffer,
                      int count, MPI_Datatype type);
MPI_Request handle_of_request(Request &request);

// Posts what a receive record asks for, looking at drained messages first. An error is the
// library's; then nothing is posted.
int post(Request &request);
// Begins the send that the record describes.
int begin_send(Request &request);

// The library has completed the request, and its handle is gone (or inactive). `error`: what its
// function has returned; `said`: what it has said before a handler of the program's (heard.hpp).
void completed_natively(Request &request, const MPI_Status &status, int error, int said);
// Asks the library once, which tells the program's error handler.
void test_natively(Request &request);
// Asks once. True: complete (or inactive).
bool poll(Request &request);
// Between two polls in a loop that waits, or after one in vain: stands still, tells the tree.
void pause_for(Request &request);
void pause_for(bookmark::Comm &comm, int source);
void pause_over();

// Hands a complete request over to the program, and its handle back. The program's error handler
// hears of an error, and the function returns what is left of it.
int hand_over(MPI_Request *place, MPI_Status *status);

// Of several: the error of each is returned. MPICH's error handler hears of all at once.
//
//     Untold untold;
//     if (hand_over(&requests[i], status, untold) != MPI_SUCCESS)
//         result = MPI_ERR_IN_STATUS;
//     ...
//     if (result != MPI_SUCCESS)
//         result = in_status(untold);
struct Untold {
    bool any = false;
};
int hand_over(MPI_Request *place, MPI_Status *status, Untold &untold);
int in_status(const Untold &untold);
void release(MPI_Request *place);

void set_empty(MPI_Status *status);
void set_status(MPI_Status *status, const MPI_Status &from);

// What only a persistent request has, which is not active and will not be again.
void forget_persistent(Request &request);

// Requests that the program has freed while they were active.
void make_orphan(Request &request);
void drop_orphans();

} // namespace cryo::mpi::rank
