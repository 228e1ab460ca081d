// SPDX-License-Identifier: Apache-2.0
// Messages: sends are counted when they start, receives look at drained messages first.
#include "functions.gen.hpp"
#include "mpi/rank/completion.hpp"
#include "mpi/rank/spin.hpp"

#include <cstring>

namespace cryo::mpi::traffic {

using namespace rank;
using capsule::call;

namespace {

using SendFunction = decltype(&PMPI_Send);
using IsendFunction = decltype(&PMPI_Isend);

int begin_send(IsendFunction begin, const void *buf, int count, MPI_Datatype type, int dest,
               int tag, MPI_Comm comm, MPI_Request *request)
{
    MPI_Request real = nullptr;
    Sent sent(comm, dest, count, type);
    const int result = sent.done(call(begin, buf, count, mpi::real_of(type), dest, tag,
                                      mpi::real_of(comm), request != nullptr ? &real : nullptr));
    // Also if the send was refused and an error handler of the program turned that into a success.
    if (result != MPI_SUCCESS || real == nullptr || real == real_null_request())
        return result;
    Object *object = make_object(Kind::Request, real);
    Request &r = *begin_record<Request>(object);
    r.use = Use::send;
    refer(r, counted(comm));
    r.source = dest;
    r.capacity = r.comm != nullptr && dest >= 0 ? rank::bytes_of(count, type) : 0;
    r.active = true;
    *request = handle_of_request(r);
    const Guard guard;
    engine->mpi().under_way.add(r);
    return result;
}

// With several threads it does not block, as others may have to stop while the library sends.
int send(SendFunction blocking, IsendFunction begin, const void *buf, int count, MPI_Datatype type,
         int dest, int tag, MPI_Comm comm)
{
    if (several_threads) {
        MPI_Request request = nullptr;
        const int result = begin_send(begin, buf, count, type, dest, tag, comm, &request);
        return request != nullptr ? Wait(&request, MPI_STATUS_IGNORE) : result;
    }
    Sent sent(comm, dest, count, type);
    return sent.done(call(blocking, buf, count, mpi::real_of(type), dest, tag, mpi::real_of(comm)));
}

// Nothing is received, or the library will reject the arguments.
bool is_for_library(MPI_Comm comm, int source, int count, MPI_Datatype type)
{
    return counted(comm) == nullptr || source == MPI_PROC_NULL || count < 0 || type == nullptr;
}

} // namespace

int Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    return send(stock.Send, stock.Isend, buf, count, type, dest, tag, comm);
}

int Ssend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    return send(stock.Ssend, stock.Issend, buf, count, type, dest, tag, comm);
}

int Rsend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    return send(stock.Rsend, stock.Irsend, buf, count, type, dest, tag, comm);
}

int Bsend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    Sent sent(comm, dest, count, type);
    return sent.done(
        call(stock.Bsend, buf, count, mpi::real_of(type), dest, tag, mpi::real_of(comm)));
}

int Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
          MPI_Request *request)
{
    return begin_send(stock.Isend, buf, count, type, dest, tag, comm, request);
}

int Issend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
           MPI_Request *request)
{
    return begin_send(stock.Issend, buf, count, type, dest, tag, comm, request);
}

int Irsend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
           MPI_Request *request)
{
    return begin_send(stock.Irsend, buf, count, type, dest, tag, comm, request);
}

int Ibsend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
           MPI_Request *request)
{
    return begin_send(stock.Ibsend, buf, count, type, dest, tag, comm, request);
}

namespace {

int begin_receive(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  bool blocking, MPI_Request *request)
{
    if (is_for_library(comm, source, count, type)) {
        Made made(request);
        const int result = done(call(stock.Irecv, buf, count, mpi::real_of(type), source, tag,
                                     mpi::real_of(comm), made.place()),
                                made);
        return tracked(result, request);
    }
    Request &r = make_request(Use::receive, counted(comm), source, tag, buf, count, type);
    r.blocking = blocking;
    MPI_Request handle = handle_of_request(r);
    const int result = post(r);
    if (r.active)
        *request = handle;
    else
        release(&handle);
    return result;
}

} // namespace

int Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
          MPI_Request *request)
{
    return begin_receive(buf, count, type, source, tag, comm, false, request);
}

int Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
         MPI_Status *status)
{
    if (is_for_library(comm, source, count, type))
        return call(stock.Recv, buf, count, mpi::real_of(type), source, tag, mpi::real_of(comm),
                    status);
    bookmark::Comm &counters = *counted(comm);
    if (several_threads || must_attend || !counters.drained.empty() ||
        has_special_handler(object_of(comm))) {
        MPI_Request request = nullptr;
        const int result = begin_receive(buf, count, type, source, tag, comm, true, &request);
        return request != nullptr ? Wait(&request, status) : result;
    }
    const Heard heard;
    spin::Receive quick = {.buffer = buf,
                           .count = count,
                           .type = mpi::real_of(type),
                           .source = source,
                           .tag = tag,
                           .comm = mpi::real_of(comm),
                           .request = nullptr,
                           .wait = {}};
    call(spin::receive, &quick);
    if (quick.wait.flag != 0) {
        counters.received(quick.wait.status.MPI_SOURCE, abi::bytes_in(quick.wait.status));
        if (abi::is_truncation(heard.of(quick.wait.error)))
            engine->receives().truncated();
        set_status(status, quick.wait.status);
        return quick.wait.error;
    }
    if (quick.wait.error != MPI_SUCCESS || quick.request == nullptr)
        return quick.wait.error;
    // A checkpoint is pending: from here on this is an ordinary receive.
    Request &r = make_request(Use::receive, &counters, source, tag, buf, count, type);
    r.blocking = true;
    *real_place(r) = quick.request;
    engine->receives().posted(r);
    r.active = true;
    MPI_Request request = handle_of_request(r);
    return Wait(&request, status);
}

namespace {

// Whether the library will reject the send: then nothing may be received either. `result` is then
// the library's answer.
bool is_mistaken(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
                 int &result)
{
    constexpr int least_tag_limit = 32767; // every MPI allows tags up to this
    const bookmark::Comm *counters = counted(comm);
    if (count < 0 || type == nullptr || (tag < 0 && dest != MPI_PROC_NULL) ||
        (counters != nullptr && dest != MPI_PROC_NULL &&
         (dest < 0 || static_cast<uint32_t>(dest) >= counters->peer_count()))) {
        result = send(stock.Send, stock.Isend, buf, count, type, dest, tag, comm);
        return true;
    }
    if (tag <= least_tag_limit && is_predefined(object_of(type)))
        return false;
    // The tag may be too large, or the datatype uncommitted: MPI_Send_init checks all arguments,
    // and the request is never started.
    MPI_Request later = nullptr;
    result = call(stock.Send_init, buf, count, mpi::real_of(type), dest, tag, mpi::real_of(comm),
                  &later);
    if (result != MPI_SUCCESS || later == nullptr || later == real_null_request())
        return true; // or an error handler of the program turned the error into a success
    call(stock.Request_free, &later);
    return false;
}

} // namespace

int Sendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
             void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
             MPI_Comm comm, MPI_Status *status)
{
    MPI_Request requests[2] = {};
    int result = MPI_SUCCESS;
    if (is_mistaken(sendbuf, sendcount, sendtype, dest, sendtag, comm, result))
        return result;
    result = begin_receive(recvbuf, recvcount, recvtype, source, recvtag, comm, true, &requests[0]);
    if (requests[0] == nullptr)
        return result;
    result = Isend(sendbuf, sendcount, sendtype, dest, sendtag, comm, &requests[1]);
    if (requests[1] == nullptr) {
        Cancel(&requests[0]);
        Request_free(&requests[0]);
        return result;
    }
    const int sent = Wait(&requests[1], MPI_STATUS_IGNORE);
    const int received = Wait(&requests[0], status);
    return received != MPI_SUCCESS ? received : sent;
}

namespace {

int replace_raw(const Span &span, void *buf, int count, MPI_Datatype type, int dest, int sendtag,
                int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
    auto *copy = static_cast<char *>(capsule::keep(span.bytes));
    if (copy == nullptr)
        return MPI_ERR_NO_MEM;
    memcpy(copy, static_cast<const char *>(buf) + span.lower, span.bytes);
    const int result = Sendrecv(copy - span.lower, count, type, dest, sendtag, buf, count, type,
                                source, recvtag, comm, status);
    capsule::unkeep(copy, span.bytes);
    return result;
}

} // namespace

// The outgoing data is packed first, so that the buffer is free for the incoming data; or it is
// copied as it lies, if it is too much for MPI_Pack.
int Sendrecv_replace(void *buf, int count, MPI_Datatype type, int dest, int sendtag, int source,
                     int recvtag, MPI_Comm comm, MPI_Status *status)
{
    const Span span = span_beyond_packing(buf, count, type);
    if (span.bytes != 0)
        return replace_raw(span, buf, count, type, dest, sendtag, source, recvtag, comm, status);
    int bytes = 0;
    int packed = 0;
    int result = call(stock.Pack_size, count, mpi::real_of(type), mpi::real_of(comm), &bytes);
    if (result != MPI_SUCCESS)
        return result;
    const size_t kept = bytes > 0 ? static_cast<size_t>(bytes) : 1;
    void *copy = capsule::keep(kept);
    if (copy == nullptr)
        return MPI_ERR_NO_MEM;
    result = call(stock.Pack, static_cast<const void *>(buf), count, mpi::real_of(type), copy,
                  bytes, &packed, mpi::real_of(comm));
    if (result == MPI_SUCCESS)
        result = Sendrecv(copy, packed, MPI_PACKED, dest, sendtag, buf, count, type, source,
                          recvtag, comm, status);
    capsule::unkeep(copy, kept);
    return result;
}

} // namespace cryo::mpi::traffic
