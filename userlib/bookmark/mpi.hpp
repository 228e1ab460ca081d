// SPDX-License-Identifier: Apache-2.0
//
// What the bookmark exchange needs from an MPI library: a few operations, none of which blocks.
// The wrapper layer implements Mpi on top of the real library; the tests implement it with a
// simulator.
//
// Rank::handle() calls none of these, so none runs in a signal handler that interrupted the
// library.
#pragma once

#include "bookmark/comm.hpp"

namespace cryo::bookmark {

struct Arrival {
    int source = 0; // rank in the communicator
    int tag = 0;
    uint64_t bytes = 0;     // packed, as in MPI_BYTE
    bool truncated = false; // MPI_ERR_TRUNCATE: the receive's buffer was too small
    bool cancelled = false; // there is no message: the library has cancelled the receive
};

// A posted receive, embedded in the wrapper's request object. `source` and `tag` are what the
// program asked for, wildcards included; buffer and datatype are known only to the wrapper.
struct Receive {
    enum class State : uint8_t {
        idle,
        posted,    // posted in the library
        withdrawn, // cancelled in the library for a checkpoint; will be posted again
        bound,     // matched with a drained message that is still arriving
        done,      // complete: `arrival` is set, whether or not the program has tested it
        cancelled, // by the program
    };

    Comm *comm = nullptr;
    int source = kAnySource;
    int tag = kAnyTag;
    uint64_t capacity = 0; // size of the buffer in bytes
    uint64_t native = 0;   // for Mpi: the library's request
    void *user = nullptr;  // for Mpi: buffer, count, datatype

    State state = State::idle;
    Arrival arrival;
    Drained *drained = nullptr;
    Receive *before = nullptr, *after = nullptr; // neighbours in posting order, while posted
};

// Result of MPI_Mprobe: a message that no other receive can match any more.
struct Matched {
    Comm *comm = nullptr;
    Arrival arrival;
    uint64_t native = 0;        // for Mpi: the library's message; unused if
    Drained *drained = nullptr; // the message was drained, before or after the probe
    Matched *before = nullptr, *after = nullptr;
};

enum class Withdrawal : uint8_t {
    withdrawn, // the library no longer knows the receive
    done,      // the receive had matched, or the program had cancelled it: `arrival` is set
    arriving,  // the receive has matched and its data is still arriving: test() it
};

class Mpi
{
  public:
    Mpi() = default;
    Mpi(const Mpi &) = delete;
    Mpi &operator=(const Mpi &) = delete;
    virtual ~Mpi() = default;

    // MPI_Irecv, MPI_Test, and MPI_Cancel (with its completion) of one receive.
    virtual void post(Receive &receive) = 0;
    virtual bool test(Receive &receive, Arrival &arrival) = 0;
    virtual Withdrawal withdraw(Receive &receive, Arrival &arrival) = 0;

    // MPI_Iprobe, MPI_Improbe.
    virtual bool probe(Comm &comm, int source, int tag, Arrival &arrival) = 0;
    virtual bool mprobe(Comm &comm, int source, int tag, Matched &matched) = 0;

    // MPI_Imrecv of a matched message into a receive's buffer; test() reports its completion.
    virtual void receive_matched(Matched &matched, Receive &receive) = 0;

    // Takes the next message, from any source with any tag, that no posted receive matches:
    // MPI_Improbe and MPI_Imrecv as packed bytes. Returns false if there is none now. Sets source
    // and tag; the data is complete when taken() returns true.
    virtual bool take(Comm &comm, Drained &message) = 0;
    virtual void take_matched(Matched &matched, Drained &message) = 0;
    virtual bool taken(Drained &message) = 0;

    // Unpacks a drained message into a receive's buffer, at most `receive.capacity` bytes.
    virtual void deliver(Receive &receive, const Drained &message) = 0;

    // Makes progress; returns true when all sends and non-blocking collectives started by this rank
    // are complete inside the library. (The program's requests for them stay valid.) Before the cut
    // another rank may have started more than this one, so operations whose steps must run in the
    // same order at all ranks are left alone until then.
    virtual bool settled(bool at_cut) = 0;
};

} // namespace cryo::bookmark
