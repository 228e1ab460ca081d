// SPDX-License-Identifier: Apache-2.0
//
// What the rank engine knows of a request or of a matched message. It lies in the handle's object,
// behind what every object has, so that a request needs no memory of its own.
//
//     Request *r = request_of(handle);   // null for MPI_REQUEST_NULL
#pragma once

#include "mpi/bookmark/mpi.hpp"
#include "mpi/wrap/heard.hpp"

#include <atomic>
#include <new>

namespace cryo::mpi::rank {

enum class Use : uint8_t {
    unknown, // generalized requests: the program completes them
    receive,
    send,
    other,       // must complete before the cut: non-blocking collectives
    file,        // so must this; the library is asked for each by itself (completion.hpp)
    partitioned, // made of such messages (partitioned.hpp)
};

struct Partitioned;

enum class Mode : uint8_t { standard, buffered, ready, synchronous };

// What a receive asks for, as the exchange has it (abi::peer); a send's destination is `source`.
struct Request : bookmark::Receive {
    Use use = Use::unknown;
    Mode mode = Mode::standard;
    bool persistent = false;
    bool blocking = false; // of MPI_Recv or the like
    bool active = false;
    bool complete = false;          // `status` and `error` tell how; the program has not asked yet
    bool untold = false;            // the program's error handler has not heard of the error
    std::atomic<bool> lent = false; // a thread has it in the library's hands (completion.hpp)
    int error = MPI_SUCCESS;
    int count = 0;
    const void *buffer = nullptr;
    Object *datatype = nullptr; // pinned
    MPI_Status status = {};
    Request *older = nullptr, *newer = nullptr; // while it is under way, and no receive
    Object *copy = nullptr; // of MPI_Comm_idup: a communicator that is none before it completes
    Partitioned *partitioned = nullptr;
    Request *next_orphan = nullptr; // freed by the program while it was active
    const Object *queue = nullptr;  // a file: such requests end in the order of their beginning
};

struct Message : bookmark::Matched {};

// A communicator stays as long as a request refers to it.
inline void refer(Request &request, bookmark::Comm *comm)
{
    if (request.comm != nullptr)
        request.comm->requests--;
    request.comm = comm;
    if (comm != nullptr)
        comm->requests++;
}

// Requests of MPI_Comm_idup that are not complete.
extern std::atomic<int> copies_under_way __attribute__((visibility("hidden")));

// The library has completed it: what it made may be asked for messages.
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

// A receive whose error is its communicator's affair, when it is waited for by itself, where others
// are MPI_COMM_WORLD's (abi::world_answers). The library does not know that.
inline bool asks_communicator(const Request &request)
{
    return abi::world_answers && request.use == Use::receive &&
           (request.persistent || request.blocking) && request.comm->user != nullptr &&
           has_special_handler(static_cast<Object *>(request.comm->user));
}

// The library's own handle, which it writes to.
inline MPI_Request *real_place(Request &request)
{
    return reinterpret_cast<MPI_Request *>(&object_of_record(&request)->real);
}

inline MPI_Request real_null_request()
{
    return static_cast<MPI_Request>(null_object(Kind::Request)->real);
}

// A list of requests, in the order of their beginning.
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

    // The oldest of a queue.
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
