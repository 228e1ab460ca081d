// SPDX-License-Identifier: Apache-2.0
//
// The rank engine's record of a request or of a matched message. It is part of the handle's object,
// after the members that every object has, so that a request needs no memory of its own.
//
//     Request *r = request_of(handle);   // null for MPI_REQUEST_NULL
#pragma once

#include "bookmark/mpi.hpp"
#include "mpi/rank/heard.hpp"

#include <atomic>
#include <new>

namespace cryo::mpi::rank {

enum class Use : uint8_t {
    unknown, // generalized requests: the program completes them
    receive,
    send,
    other,       // must complete before the cut: e.g. non-blocking collectives
    file,        // so must these; tested in the library one by one (completion.hpp)
    partitioned, // made of several messages (partitioned.hpp)
};

struct Partitioned;

enum class Mode : uint8_t { standard, buffered, ready, synchronous };

// A receive's source is encoded as in the exchange (abi::peer); a send's receiver is `source`.
struct Request : bookmark::Receive {
    Use use = Use::unknown;
    Mode mode = Mode::standard;
    bool persistent = false;
    bool blocking = false; // from MPI_Recv or a similar function
    bool active = false;
    bool complete = false;          // see `status` and `error`; the program has not tested it yet
    bool untold = false;            // the program's error handler was not called for the error
    std::atomic<bool> lent = false; // a thread waits for it in the library (completion.hpp)
    bool to_cancel = false;         // a receive: the program has cancelled it in the library
    int error = MPI_SUCCESS;
    int count = 0;
    const void *buffer = nullptr;
    Object *datatype = nullptr; // pinned
    MPI_Status status = {};
    Request *older = nullptr, *newer = nullptr; // in StockMpi::under_way; not for receives
    Object *copy = nullptr; // of MPI_Comm_idup: the new communicator, not usable before completion
    Partitioned *partitioned = nullptr;
    Request *next_orphan = nullptr; // freed by the program while it was active
    const Object *queue = nullptr;  // a file: its requests complete in the order they began
};

struct Message : bookmark::Matched {};

// Makes a request refer to a communicator, which is kept as long as that.
inline void refer(Request &request, bookmark::Comm *comm)
{
    if (request.comm != nullptr)
        request.comm->requests--;
    request.comm = comm;
    if (comm != nullptr)
        comm->requests++;
}

// Number of incomplete MPI_Comm_idup requests.
extern std::atomic<int> copies_under_way __attribute__((visibility("hidden")));

// The library has completed the request: messages may now be drained from its new communicator.
inline void use_copy(Request &request)
{
    if (request.copy == nullptr)
        return;
    static_cast<bookmark::Comm *>(request.copy->traffic)->user = request.copy;
    request.copy = nullptr;
    copies_under_way--;
}

static_assert(behind_object + sizeof(Request) <= large_object);
static_assert(behind_object + sizeof(Message) <= large_object);

template <class Record>
Record *record_in(Object *object)
{
    return reinterpret_cast<Record *>(reinterpret_cast<char *>(object) + behind_object);
}

template <class Record>
Record *begin_record(Object *object)
{
    return new (record_in<Record>(object)) Record;
}

inline Object *object_of_record(void *record)
{
    return reinterpret_cast<Object *>(static_cast<char *>(record) - behind_object);
}

inline bool is_null(MPI_Request request)
{
    return request == nullptr || object_of(request) == null_object(Kind::Request);
}

inline Request *request_of(MPI_Request request)
{
    return is_null(request) ? nullptr : record_in<Request>(object_of(request));
}

// With abi::world_answers the library reports request errors to MPI_COMM_WORLD's handler. True for
// a receive whose own communicator's handler is due when it is waited for alone.
inline bool asks_communicator(const Request &request)
{
    return abi::world_answers && request.use == Use::receive &&
           (request.persistent || request.blocking) && request.comm->user != nullptr &&
           has_special_handler(static_cast<Object *>(request.comm->user));
}

// Where the library's own handle is stored; the library writes to it.
inline MPI_Request *real_place(Request &request)
{
    return reinterpret_cast<MPI_Request *>(&object_of_record(&request)->real);
}

inline MPI_Request real_null_request()
{
    return static_cast<MPI_Request>(null_object(Kind::Request)->real);
}

// A list of requests, oldest first.
class Requests
{
  public:
    Request *first() const { return first_; }
    void add(Request &request)
    {
        request.older = last_;
        request.newer = nullptr;
        (last_ != nullptr ? last_->newer : first_) = &request;
        last_ = &request;
    }
    void remove(Request &request)
    {
        (request.older != nullptr ? request.older->newer : first_) = request.newer;
        (request.newer != nullptr ? request.newer->older : last_) = request.older;
        request.older = request.newer = nullptr;
    }

    // The oldest request of a queue.
    Request *first_of(const Object *queue) const
    {
        Request *r = first_;
        while (r != nullptr && r->queue != queue)
            r = r->newer;
        return r;
    }

  private:
    Request *first_ = nullptr;
    Request *last_ = nullptr;
};

} // namespace cryo::mpi::rank
