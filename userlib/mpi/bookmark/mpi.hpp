// SPDX-License-Identifier: Apache-2.0
//
// What the bookmark exchange asks of an MPI library: a handful of operations, all of which return
// at once. The layer with the wrappers implements Mpi on top of the real library; a simulator does
// so for the tests.
//
// None of these is called from Rank::handle(), so none runs in a signal handler that interrupted
// the library.
#pragma once

#include "mpi/bookmark/comm.hpp"

namespace cryo::bookmark {

struct Arrival {
    int source = 0; // rank in the communicator
    int tag = 0;
    uint64_t bytes = 0;     // packed, as in MPI_BYTE
    bool truncated = false; // MPI_ERR_TRUNCATE: the receive's buffer was too small
};

// A posted receive: the wrapper's request object holds one of these. `source` and `tag` are what
// the program asked for, wildcards included; buffer and datatype are the wrapper's own affair.
struct Receive {
    enum class State : uint8_t {
        idle,
        posted,    // known to the library
        withdrawn, // taken back for a checkpoint, will be posted again
        bound,     // gets a drained message that is still arriving
        done,      // `arrival` tells what came; the program has not asked yet, or has
        cancelled, // by the program
    };

    Comm *comm = nullptr;
    int source = kAnySource;
    int tag = kAnyTag;
    uint64_t capacity = 0; // bytes the buffer takes
    uint64_t native = 0;   // for Mpi: the library's request
    void *user = nullptr;  // for Mpi: buffer, count, datatype

    State state = State::idle;
    Arrival arrival;
    Drained *drained = nullptr;
    Receive *before = nullptr, *after = nullptr; // in the order of posting, while posted
};

// What MPI_Mprobe gave: a message that no other receive can match any more.
struct Matched {
    Comm *comm = nullptr;
    Arrival arrival;
    uint64_t native = 0;        // for Mpi: the library's message, unless
    Drained *drained = nullptr; // the message was drained, before or since
    Matched *before = nullptr, *after = nullptr;
};

enum class Withdrawal : uint8_t {
    withdrawn, // the library knows nothing of it any more
    done,      // it had matched, and the message is there: `arrival` is set
    arriving,  // it has matched, and the message is still coming: test() it
};

class Mpi
{
  public:
    Mpi() = default;
    Mpi(const Mpi &) = delete;
    Mpi &operator=(const Mpi &) = delete;
    virtual ~Mpi() = default;

    // MPI_Irecv, MPI_Test, MPI_Cancel (and what follows it) of one receive.
    virtual void post(Receive &receive) = 0;
    virtual bool test(Receive &receive, Arrival &arrival) = 0;
    virtual Withdrawal withdraw(Receive &receive, Arrival &arrival) = 0;

    // MPI_Iprobe, MPI_Improbe.
    virtual bool probe(Comm &comm, int source, int tag, Arrival &arrival) = 0;
    virtual bool mprobe(Comm &comm, int source, int tag, Matched &matched) = 0;

    // MPI_Imrecv of a matched message into a receive's buffer; test() then tells when it is there.
    virtual void receive_matched(Matched &matched, Receive &receive) = 0;

    // Takes the next message of any source and tag that no posted receive matches: MPI_Improbe and
    // MPI_Imrecv as packed bytes. False when there is none now. Sets source and tag; the message
    // is there when taken() says so.
    virtual bool take(Comm &comm, Drained &message) = 0;
    virtual void take_matched(Matched &matched, Drained &message) = 0;
    virtual bool taken(Drained &message) = 0;

    // Unpacks a drained message into a receive's buffer, at most `receive.capacity` bytes of it.
    virtual void deliver(Receive &receive, const Drained &message) = 0;

    // Makes progress; true when all sends and all non-blocking collectives that this rank has
    // started are complete inside the library. (The program's requests for them stay valid.) Before
    // the cut another rank may have started more than this one: what goes on in steps in which the
    // ranks meet, and would take them in another order than there, is left alone.
    virtual bool settled(bool at_cut) = 0;
};

} // namespace cryo::bookmark
