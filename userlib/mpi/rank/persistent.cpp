// SPDX-License-Identifier: Apache-2.0
// Persistent requests are only described here; each start is a message as any other. So there is
// nothing of them in the library between two messages, and nothing to make again after a restart.
#include "functions.gen.hpp"
#include "mpi/rank/partitioned.hpp"

namespace cryo::mpi::traffic {

using namespace rank;
using capsule::call;

namespace {

// The library looks at the arguments, as it would natively.
template <class Init, class Buffer>
int check(Init init, Buffer buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm)
{
    MPI_Request real = nullptr;
    const int result =
        call(init, buf, count, mpi::real_of(type), peer, tag, mpi::real_of(comm), &real);
    if (result == MPI_SUCCESS)
        call(stock.Request_free, &real);
    return result;
}

int describe(Use use, Mode mode, const void *buf, int count, MPI_Datatype type, int peer, int tag,
             MPI_Comm comm, MPI_Request *request)
{
    Request &r = make_request(use, counted(comm), peer, tag, buf, count, type);
    r.mode = mode;
    r.persistent = true;
    *request = handle_of_request(r);
    return MPI_SUCCESS;
}

template <class Init>
int describe_send(Init init, Mode mode, const void *buf, int count, MPI_Datatype type, int dest,
                  int tag, MPI_Comm comm, MPI_Request *request)
{
    const int result = check(init, buf, count, type, dest, tag, comm);
    return result != MPI_SUCCESS
               ? result
               : describe(Use::send, mode, buf, count, type, dest, tag, comm, request);
}

// A receive from nobody.
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
    return describe_send(stock.Send_init, Mode::standard, buf, count, type, dest, tag, comm,
                         request);
}

int Bsend_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return describe_send(stock.Bsend_init, Mode::buffered, buf, count, type, dest, tag, comm,
                         request);
}

int Rsend_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return describe_send(stock.Rsend_init, Mode::ready, buf, count, type, dest, tag, comm, request);
}

int Ssend_init(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return describe_send(stock.Ssend_init, Mode::synchronous, buf, count, type, dest, tag, comm,
                         request);
}

int Recv_init(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    const int result = check(stock.Recv_init, buf, count, type, source, tag, comm);
    return result != MPI_SUCCESS ? result
                                 : describe(Use::receive, Mode::standard, buf, count, type, source,
                                            tag, comm, request);
}

int Start(MPI_Request *request)
{
    Request *r = request_of(*request);
    if (r != nullptr && r->persistent && !r->active) {
        if (r->use == Use::partitioned)
            return start_partitioned(*r);
        if (r->comm != nullptr && r->comm->user == nullptr && r->use != Use::other)
            return call(stock.Comm_call_errhandler, mpi::real_of(MPI_COMM_WORLD), MPI_ERR_COMM);
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
