// SPDX-License-Identifier: Apache-2.0
#include "mpi/rank/completion.hpp"
#include "functions.gen.hpp"
#include "mpi/rank/collectives.hpp"
#include "mpi/rank/partitioned.hpp"
#include "mpi/rank/spin.hpp"

#include <utility>

namespace cryo::mpi::rank {

using bookmark::Receive;
using capsule::call;

namespace {

Request *orphans;

void settle_receive(Request &r)
{
    r.complete = true;
    r.status = {};
    if (r.state == Receive::State::cancelled) {
        r.status.MPI_SOURCE = MPI_ANY_SOURCE;
        r.status.MPI_TAG = MPI_ANY_TAG;
        abi::set_cancelled(r.status, true);
        r.error = MPI_SUCCESS;
        return;
    }
    r.status.MPI_SOURCE = r.arrival.source;
    r.status.MPI_TAG = r.arrival.tag;
    abi::set_bytes(r.status, r.arrival.bytes);
    r.status.MPI_ERROR = r.error;
    r.untold = r.error != MPI_SUCCESS;
}

// A collective file function advances in steps, each of which synchronizes the ranks, whenever its
// request is tested. If there are several, all ranks must test them in the same order, as the
// library's own MPI_Waitall does.
bool poll_in_order(const Request &r)
{
    const Engine::Busy busy(*engine);
    StockMpi &mpi = engine->mpi();
    while (!r.complete) {
        Request *oldest = mpi.under_way.first_of(r.queue);
        if (oldest == nullptr || !mpi.ask(*oldest))
            break;
    }
    return r.complete;
}

// True if the library has created no request: an error handler of the program may have turned the
// error into a success.
bool is_refused(Request &r)
{
    if (r.error == MPI_SUCCESS && *real_place(r) != nullptr &&
        *real_place(r) != real_null_request())
        return false;
    *real_place(r) = real_null_request();
    return true;
}

} // namespace

MPI_Request handle_of_request(Request &request)
{
    return handle_of<MPI_Request>(object_of_record(&request));
}

Request &make_request(Use use, bookmark::Comm *comm, int peer, int tag, const void *buffer,
                      int count, MPI_Datatype type)
{
    Object *object = make_object(Kind::Request, real_null_request());
    Request &r = *begin_record<Request>(object);
    r.use = use;
    refer(r, comm);
    r.source = use == Use::receive ? abi::peer(peer) : peer;
    r.tag = tag;
    r.buffer = buffer;
    r.count = count;
    r.capacity = count > 0 ? bytes_of(count, type) : 0;
    if (type != nullptr)
        pin(r, type);
    return r;
}

int post(Request &r)
{
    const Guard guard;
    r.complete = r.untold = r.to_cancel = false;
    r.error = MPI_SUCCESS;
    if (r.comm->drained.empty() || !engine->receives().has(*r.comm, r.source, r.tag)) {
        *real_place(r) = nullptr;
        engine->mpi().post(r);
        if (is_refused(r))
            return r.error;
        engine->receives().posted(r);
    } else {
        engine->receives().post(r);
    }
    r.active = true;
    return MPI_SUCCESS;
}

int begin_send(Request &r)
{
    const auto begin = r.mode == Mode::buffered      ? stock.Ibsend
                       : r.mode == Mode::ready       ? stock.Irsend
                       : r.mode == Mode::synchronous ? stock.Issend
                                                     : stock.Isend;
    Sent sent(handle_of<MPI_Comm>(static_cast<Object *>(r.comm->user)), r.source, r.count,
              handle_of<MPI_Datatype>(r.datatype));
    r.complete = false;
    *real_place(r) = nullptr;
    const int result = r.error =
        sent.done(call(begin, r.buffer, r.count, static_cast<MPI_Datatype>(r.datatype->real),
                       r.source, r.tag, real_of(*r.comm), real_place(r)));
    if (is_refused(r))
        return result;
    const Guard guard;
    r.active = true;
    engine->mpi().under_way.add(r);
    return result;
}

void completed_natively(Request &r, const MPI_Status &status, int error, int said)
{
    const Guard guard;
    if (r.use == Use::receive) {
        engine->receives().completed(r, arrival_of(status, said));
    } else if (r.use != Use::unknown) {
        engine->mpi().under_way.remove(r);
        use_copy(r);
        if (r.use == Use::send && abi::is_cancelled(status) && r.comm != nullptr && r.source >= 0)
            r.comm->unsent(r.source, r.capacity);
    }
    r.status = status;
    r.error = error;
    r.complete = true;
    give_back(r);
}

void test_natively(Request &r)
{
    const Heard heard;
    int flag = 0;
    MPI_Status status = {};
    const int error = call(stock.Test, real_place(r), &flag, &status);
    const int said = heard.of(error);
    if (flag != 0 || said != MPI_SUCCESS)
        completed_natively(r, status, error, said);
}

bool poll(Request &r)
{
    if (!r.active || r.complete)
        return true;
    if (r.use == Use::partitioned)
        return poll_partitioned(r);
    if (r.use == Use::receive) {
        const Engine::Busy busy(*engine);
        if (engine->receives().test(r))
            settle_receive(r);
        return r.complete;
    }
    if (r.queue != nullptr)
        return poll_in_order(r);
    test_natively(r);
    return r.complete;
}

void pause_for(bookmark::Comm &comm, int source)
{
    if (must_attend)
        engine->stand_still();
    if (!must_attend)
        return;
    const Engine::Busy busy(*engine);
    if (engine->rank().pending())
        engine->rank().waits_for(comm, source);
}

void pause_for(Request &r)
{
    if (r.use == Use::partitioned)
        pause_for_partitioned(r);
    else if (r.use == Use::receive && r.active && !r.complete)
        pause_for(*r.comm, r.source);
    else if (bookmark::Comm *members = r.queue != nullptr && r.active && !r.complete
                                           ? static_cast<bookmark::Comm *>(r.queue->traffic)
                                           : nullptr)
        pause_for(*members, bookmark::kAnySource); // all members must test it, too
    else if (must_attend)
        engine->stand_still();
}

void pause_over()
{
    if (!must_attend)
        return;
    const Engine::Busy busy(*engine);
    if (engine->rank().pending())
        engine->rank().waits_no_more();
}

void set_empty(MPI_Status *status)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    status->MPI_SOURCE = MPI_ANY_SOURCE;
    status->MPI_TAG = MPI_ANY_TAG;
    status->MPI_ERROR = MPI_SUCCESS;
    abi::set_bytes(*status, 0);
    abi::set_cancelled(*status, false);
}

// MPI_ERROR is set only by functions with several requests.
void set_status(MPI_Status *status, const MPI_Status &from)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    const int error = status->MPI_ERROR;
    *status = from;
    status->MPI_ERROR = error;
}

void release(MPI_Request *place)
{
    Request &r = *request_of(*place);
    r.complete = false;
    if (is_no_object(object_of(*place)))
        return;
    r.active = false;
    if (r.persistent)
        return;
    if (r.datatype != nullptr)
        unpin(r);
    refer(r, nullptr);
    drop_object(object_of(*place));
    *place = handle_of<MPI_Request>(null_object(Kind::Request));
}

int hand_over(MPI_Request *place, MPI_Status *status, MPI_Comm &untold)
{
    Request *r = request_of(*place);
    if (r == nullptr || !r->active) {
        set_empty(status);
        return MPI_SUCCESS;
    }
    const int error = r->error;
    if (r->untold) {
        const bool is_theirs =
            abi::world_answers ? asks_communicator(*r) : r->comm->user != nullptr;
        untold =
            is_theirs ? handle_of<MPI_Comm>(static_cast<Object *>(r->comm->user)) : MPI_COMM_WORLD;
    }
    set_status(status, r->status);
    release(place);
    return error;
}

int hand_over(MPI_Request *place, MPI_Status *status)
{
    MPI_Comm untold = nullptr;
    const int error = hand_over(place, status, untold);
    return untold != nullptr ? tell_error(untold, error) : error;
}

int hand_over(MPI_Request *place, MPI_Status *status, Untold &untold)
{
    MPI_Comm comm = nullptr;
    const int error = hand_over(place, status, comm);
    if (comm != nullptr && !abi::world_answers)
        tell_error(comm, error);
    untold.any = untold.any || comm != nullptr;
    return error;
}

int in_status(const Untold &untold)
{
    return abi::world_answers && untold.any ? tell_error(MPI_COMM_WORLD, MPI_ERR_IN_STATUS)
                                            : MPI_ERR_IN_STATUS;
}

void forget_persistent(Request &r)
{
    if (r.partitioned != nullptr)
        forget_partitioned(r);
    else if (r.persistent && r.use == Use::other)
        forget_collective(r);
}

void make_orphan(Request &r)
{
    const Guard guard;
    r.next_orphan = orphans;
    orphans = &r;
}

void drop_orphans()
{
    Request *all = nullptr;
    {
        const Guard guard;
        all = std::exchange(orphans, nullptr);
    }
    while (Request *r = all) {
        all = r->next_orphan;
        if (!poll(*r)) {
            make_orphan(*r);
            continue;
        }
        forget_persistent(*r);
        r->persistent = false;
        MPI_Request handle = handle_of_request(*r);
        release(&handle);
    }
}

} // namespace cryo::mpi::rank
