// SPDX-License-Identifier: Apache-2.0
#include "mpi/rank/stock_mpi.hpp"
#include "functions.gen.hpp"
#include "mpi/rank/heard.hpp"
#include "mpi/rank/meetings.hpp"
#include "mpi/stock/fatal.hpp"

#include <algorithm>
#include <climits>

namespace cryo::mpi::rank {

namespace {

using bookmark::Arrival;
using bookmark::Comm;
using bookmark::Drained;
using bookmark::Matched;
using bookmark::Receive;
using bookmark::Withdrawal;
using capsule::call;

template <class Handle>
Handle predefined(Handle ours)
{
    return static_cast<Handle>(object_of(ours)->real);
}

// Describes any number of bytes, although MPI counts with int: as whole blocks and a remainder.
class ByteCount
{
  public:
    explicit ByteCount(uint64_t bytes)
    {
        if (bytes <= INT_MAX) {
            count = static_cast<int>(bytes);
            type = predefined(MPI_PACKED);
            return;
        }
        constexpr uint64_t block = 1UL << 30;
        MPI_Datatype blocks = nullptr;
        int lengths[2] = {1, static_cast<int>(bytes % block)};
        MPI_Aint places[2] = {0, static_cast<MPI_Aint>(bytes / block * block)};
        call(stock.Type_contiguous, static_cast<int>(block), predefined(MPI_BYTE), &types_[0]);
        call(stock.Type_contiguous, static_cast<int>(bytes / block), types_[0], &blocks);
        types_[1] = blocks;
        const MPI_Datatype parts[2] = {blocks, predefined(MPI_BYTE)};
        call(stock.Type_create_struct, 2, lengths, places, parts, &types_[2]);
        call(stock.Type_commit, &types_[2]);
        count = 1;
        type = types_[2];
    }
    ~ByteCount()
    {
        for (MPI_Datatype &made : types_) {
            if (made != nullptr)
                call(stock.Type_free, &made);
        }
    }
    ByteCount(const ByteCount &) = delete;
    ByteCount &operator=(const ByteCount &) = delete;

    int count = 0;
    MPI_Datatype type = nullptr;

  private:
    MPI_Datatype types_[3] = {};
};

Request &request_in(Receive &receive)
{
    return static_cast<Request &>(receive);
}

// Open MPI's MPI_Request_get_status leaves MPI_ERROR alone, and counts the bytes that were sent,
// not those that fitted. MPICH's returns the error as its result.
int error_of(const Request &r, const MPI_Status &status, int result)
{
    if (abi::bytes_in(status) > r.capacity)
        return MPI_ERR_TRUNCATE;
    return result != MPI_SUCCESS ? result : status.MPI_ERROR;
}

} // namespace

Arrival arrival_of(const MPI_Status &status, int error)
{
    return {.source = status.MPI_SOURCE,
            .tag = status.MPI_TAG,
            .bytes = abi::bytes_in(status),
            .truncated = abi::is_truncation(error),
            .cancelled = abi::is_cancelled(status)};
}

void StockMpi::begin()
{
    if (call(stock.Comm_dup, predefined(MPI_COMM_SELF), &self_) != MPI_SUCCESS)
        fatal("the MPI library cannot duplicate MPI_COMM_SELF");
}

void StockMpi::end()
{
    call(stock.Comm_free, &self_);
}

void StockMpi::post(Receive &receive)
{
    Request &r = request_in(receive);
    r.error = call(stock.Irecv, const_cast<void *>(r.buffer), r.count,
                   static_cast<MPI_Datatype>(r.datatype->real), abi::peer(r.source), r.tag,
                   real_of(*r.comm), real_place(r));
}

// Tests without the error handler: a receive's error is reported when the program tests it.
bool StockMpi::test(Receive &receive, Arrival &arrival)
{
    Request &r = request_in(receive);
    if (r.lent)
        return false;
    int flag = 0;
    MPI_Status status = {};
    const QuietWorld quiet;
    const int result = call(stock.Request_get_status, *real_place(r), &flag, &status);
    if (flag == 0)
        return false;
    call(stock.Request_free, real_place(r));
    r.error = error_of(r, status, result);
    arrival = arrival_of(status, r.error);
    return true;
}

Withdrawal StockMpi::withdraw(Receive &receive, Arrival &arrival)
{
    Request &r = request_in(receive);
    int flag = 0;
    int cancelled = 0;
    MPI_Status status = {};
    if (r.lent) // to another thread, which will see the outcome
        return Withdrawal::arriving;
    if (!r.to_cancel) // a second time would damage Open MPI's lists
        call(stock.Cancel, real_place(r));
    const QuietWorld quiet;
    const int result = call(stock.Request_get_status, *real_place(r), &flag, &status);
    if (flag == 0)
        return Withdrawal::arriving;
    call(stock.Test_cancelled, &status, &cancelled);
    call(stock.Request_free, real_place(r));
    if (cancelled != 0 && !r.to_cancel) {
        withdrawn_++;
        return Withdrawal::withdrawn;
    }
    r.error = error_of(r, status, result);
    arrival = arrival_of(status, r.error);
    return Withdrawal::done;
}

bool StockMpi::probe(Comm &comm, int source, int tag, Arrival &arrival)
{
    int flag = 0;
    MPI_Status status = {};
    call(stock.Iprobe, abi::peer(source), tag, real_of(comm), &flag, &status);
    if (flag != 0)
        arrival = arrival_of(status, MPI_SUCCESS);
    return flag != 0;
}

bool StockMpi::mprobe(Comm &comm, int source, int tag, Matched &matched)
{
    int flag = 0;
    MPI_Status status = {};
    auto &message = static_cast<Message &>(matched);
    auto *place = reinterpret_cast<MPI_Message *>(&object_of_record(&message)->real);
    call(stock.Improbe, abi::peer(source), tag, real_of(comm), &flag, place, &status);
    if (flag != 0)
        matched.arrival = arrival_of(status, MPI_SUCCESS);
    else
        *place = nullptr; // not the null message: the library has no message for this record
    return flag != 0;
}

void StockMpi::receive_matched(Matched &matched, Receive &receive)
{
    Request &r = request_in(receive);
    auto &message = static_cast<Message &>(matched);
    auto *place = reinterpret_cast<MPI_Message *>(&object_of_record(&message)->real);
    r.error = call(stock.Imrecv, const_cast<void *>(r.buffer), r.count,
                   static_cast<MPI_Datatype>(r.datatype->real), place, real_place(r));
    *place = nullptr; // not the null message
}

void StockMpi::begin_taking(MPI_Message real, const MPI_Status &status, Drained &message)
{
    const uint64_t bytes = abi::bytes_in(status);
    message.source = status.MPI_SOURCE;
    message.tag = status.MPI_TAG;
    message.data.resize(bytes);
    const ByteCount counted(bytes);
    auto *request = reinterpret_cast<MPI_Request *>(&message.native);
    call(stock.Imrecv, static_cast<void *>(message.data.data()), counted.count, counted.type, &real,
         request);
    drained_++;
}

bool StockMpi::take(Comm &comm, Drained &message)
{
    if (comm.user == nullptr || comm.freed)
        return false;
    int flag = 0;
    MPI_Message real = nullptr;
    MPI_Status status = {};
    call(stock.Improbe, MPI_ANY_SOURCE, MPI_ANY_TAG, real_of(comm), &flag, &real, &status);
    if (flag == 0)
        return false;
    begin_taking(real, status, message);
    return true;
}

void StockMpi::take_matched(Matched &matched, Drained &message)
{
    Object *object = object_of_record(static_cast<Message *>(&matched));
    MPI_Status status = {};
    status.MPI_SOURCE = matched.arrival.source;
    status.MPI_TAG = matched.arrival.tag;
    abi::set_bytes(status, matched.arrival.bytes);
    begin_taking(static_cast<MPI_Message>(object->real), status, message);
    object->real = nullptr;
}

bool StockMpi::taken(Drained &message)
{
    int flag = 0;
    MPI_Status status = {};
    call(stock.Test, reinterpret_cast<MPI_Request *>(&message.native), &flag, &status);
    return flag != 0;
}

// The library unpacks, by a message from this process to itself: it handles types with gaps,
// partial elements, and messages that are shorter or longer than the buffer.
void StockMpi::deliver(Receive &receive, const Drained &message)
{
    Request &r = request_in(receive);
    const uint64_t bytes = std::min<uint64_t>(message.data.size(), r.capacity);
    const ByteCount counted(bytes);
    MPI_Status status = {};
    const int error = call(stock.Sendrecv, static_cast<const void *>(message.data.data()),
                           counted.count, counted.type, 0, 0, const_cast<void *>(r.buffer), r.count,
                           static_cast<MPI_Datatype>(r.datatype->real), 0, 0, self_, &status);
    r.error = message.data.size() > r.capacity ? MPI_ERR_TRUNCATE : error;
}

// MPICH makes no progress in a probe of a communicator where only this process could have sent
// something, nor in one that finds a message.
void StockMpi::progress()
{
    int flag = 0;
    MPI_Status status;
    MPI_Comm quiet = bridge_of_library();
    call(stock.Iprobe, MPI_ANY_SOURCE, MPI_ANY_TAG, quiet != nullptr ? quiet : self_, &flag,
         &status);
}

bool StockMpi::ask(Request &r)
{
    int flag = 0;
    const int error = call(stock.Test, real_place(r), &flag, &r.status);
    if (flag == 0 && error == MPI_SUCCESS)
        return false;
    under_way.remove(r);
    use_copy(r);
    r.error = error;
    r.complete = true;
    return true;
}

bool StockMpi::settled(bool at_cut)
{
    bool all = true;
    for (Request *r = under_way.first(), *next; r != nullptr; r = next) {
        next = r->newer;
        const bool may_ask = r->queue == nullptr || (at_cut && under_way.first_of(r->queue) == r);
        if (!may_ask || !ask(*r))
            all = false;
    }
    return all;
}

} // namespace cryo::mpi::rank
