// SPDX-License-Identifier: Apache-2.0
// Persistent point-to-point requests are only described here; each start is an ordinary message. So
// the library holds nothing of them between starts, and a restart need not recreate anything. Those
// on communicators that are not counted are the library's.
#include "functions.gen.hpp"
#include "mpi/rank/partitioned.hpp"

namespace cryo::mpi::traffic {

using namespace rank;
using capsule::call;

namespace {

// The library checks the arguments, as it would natively.
template <class Init, class Buffer>
int describe(Init init, Use use, Mode mode, Buffer buf, int count, MPI_Datatype type, int peer,
             int tag, MPI_Comm comm, MPI_Request *request)
{
    MPI_Request real = nullptr;
    const int result = call(init, buf, count, mpi::real_of(type), peer, tag, mpi::real_of(comm),
                            request != nullptr ? &real : nullptr);
    // Also if refused, and an error handler of the program turned that into a success.
    if (result != MPI_SUCCESS || real == nullptr || real == real_null_request())
        return result;
    if (counted(comm) == nullptr) {
        *request = handle_of<MPI_Request>(make_object(Kind::Request, real));
        return track_persistent(result, request);
    }
    call(stock.Request_free, &real);
    Request &r = make_request(use, counted(comm), peer, tag, buf, count, type);
    r.mode = mode;
    r.persistent = true;
    *request = handle_of_request(r);
    return MPI_SUCCESS;
}

// A receive from MPI_PROC_NULL.
int complete_at_once(Request &r)
{
    r.status = {};
    r.status.MPI_SOURCE = MPI_PROC_NULL;
    r.status.MPI_TAG = MPI_ANY_TAG;
    r.error = MPI_SUCCESS;
    r.active = r.complete = true;
    return MPI_SUCCESS;
}

} // namespace

int Send_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    return describe(stock.Send_init, Use::send, Mode::standard, buf, count, type, dest, tag, comm,
                    request);
}

int Bsend_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return describe(stock.Bsend_init, Use::send, Mode::buffered, buf, count, type, dest, tag, comm,
                    request);
}

int Rsend_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return describe(stock.Rsend_init, Use::send, Mode::ready, buf, count, type, dest, tag, comm,
                    request);
}

int Ssend_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return describe(stock.Ssend_init, Use::send, Mode::synchronous, buf, count, type, dest, tag,
                    comm, request);
}

int Recv_init(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    return describe(stock.Recv_init, Use::receive, Mode::standard, buf, count, type, source, tag,
                    comm, request);
}

int Start(MPI_Request *request)
{
    Request *r = request_of(*request);
    if (r != nullptr && r->persistent && !r->active) {
        if (r->use == Use::partitioned)
            return start_partitioned(*r);
        if (r->comm != nullptr && r->comm->user == nullptr && r->use != Use::other)
            return tell_error(MPI_COMM_WORLD, MPI_ERR_COMM);
        if (r->use == Use::send)
            return begin_send(*r);
        if (r->use == Use::receive)
            return r->source == abi::peer(MPI_PROC_NULL) ? complete_at_once(*r) : post(*r);
    }
    MPI_Request none = real_null_request();
    const int result = call(stock.Start, r == nullptr ? &none : real_place(*r));
    if (result == MPI_SUCCESS && r != nullptr && r->persistent) {
        start(r->comm);
        const Guard guard;
        r->active = true;
        engine->mpi().under_way.add(*r);
    }
    return result;
}

int Startall(int count, MPI_Request requests[])
{
    for (int i = 0; i < count; i++) {
        const int result = Start(&requests[i]);
        if (result != MPI_SUCCESS)
            return result;
    }
    return MPI_SUCCESS;
}

} // namespace cryo::mpi::traffic
