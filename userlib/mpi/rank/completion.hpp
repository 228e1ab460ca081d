// SPDX-License-Identifier: Apache-2.0
//
// How requests begin and end. A request completes either in the library, which the fast path of
// waits and tests sees first, or only here: a drained message was delivered, or a checkpoint
// completed the library's own request. Then `complete` is set and the status is kept.
#pragma once

#include "mpi/rank/engine.hpp"

namespace cryo::mpi::rank {

// True if the fast path may be taken: the library knows the request's whole state. (It gets null
// for an inactive one.) File requests are excluded: in MPICH they are generalized requests, which
// MPI_Testall and its like poll once more after completion, which fails an assertion and ends the
// program. Persistent collectives are excluded because MPICH's MPI_Testall takes them for
// errors.
inline bool is_native(const Request &r)
{
    const bool for_one = r.use == Use::file || (r.use == Use::other && r.persistent);
    return !r.active || (!r.complete && r.use != Use::partitioned && !for_one &&
                         (r.use != Use::receive || r.state == bookmark::Receive::State::posted));
}

// The library may wait for a request while no checkpoint is pending; with several threads in MPI,
// only while the request is marked as lent. A thread that announces what it waits for tests every
// receive of this rank but skips lent ones: once the library has completed a request and freed its
// handle, the handle must not be tested, although the record here still says that it is active.
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
// A thread that tests all receives raises `must_attend` first: either this thread sees that, or the
// other one sees the marks.
inline bool may_lend()
{
    if (several_threads)
        std::atomic_thread_fence(std::memory_order_seq_cst);
    return !must_attend;
}

// Creates a request's record; returns the handle of a record.
Request &make_request(Use use, bookmark::Comm *comm, int peer, int tag, const void *buffer,
                      int count, MPI_Datatype type);
MPI_Request handle_of_request(Request &request);

// Posts a receive, matching drained messages first. Returns the library's error, if any; then
// nothing is posted.
int post(Request &request);
// Begins the send that the record describes.
int begin_send(Request &request);

// Records that the library has completed the request and freed (or deactivated) its handle. `error`
// is the function's result; `said` the library's error before any program handler (heard.hpp).
void completed_natively(Request &request, const MPI_Status &status, int error, int said);
// Tests once in the library, which calls the program's error handler on an error.
void test_natively(Request &request);
// Tests once. True: complete (or inactive).
bool poll(Request &request);
// Called between two polls in a waiting loop, or after a failed test: stops if required, and sends
// messages to the tree.
void pause_for(Request &request);
void pause_for(bookmark::Comm &comm, int source);
void pause_over();

// Hands a complete request's result to the program and releases its handle. On an error, calls the
// program's error handler and returns what it leaves of the error.
int hand_over(MPI_Request *place, MPI_Status *status);

// For several requests: returns the error of each. MPICH calls the error handler once for all.
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

// Frees the extra state of a persistent request that will not be active again.
void forget_persistent(Request &request);

// Requests that the program has freed while they were active.
void make_orphan(Request &request);
void drop_orphans();

} // namespace cryo::mpi::rank
