// SPDX-License-Identifier: Apache-2.0
//
// Implements the bookmark exchange's view of an MPI library with the stock library in the capsule.
// Receives are Requests, matched probes are Messages, and a Comm's `user` is the communicator's
// object; so everything works with a new library once these are bound to it.
#pragma once

#include "bookmark/mpi.hpp"
#include "mpi/rank/request.hpp"

namespace cryo::mpi::rank {

class StockMpi : public bookmark::Mpi
{
  public:
    void post(bookmark::Receive &receive) override;
    bool test(bookmark::Receive &receive, bookmark::Arrival &arrival) override;
    bookmark::Withdrawal withdraw(bookmark::Receive &receive, bookmark::Arrival &arrival) override;
    bool probe(bookmark::Comm &comm, int source, int tag, bookmark::Arrival &arrival) override;
    bool mprobe(bookmark::Comm &comm, int source, int tag, bookmark::Matched &matched) override;
    void receive_matched(bookmark::Matched &matched, bookmark::Receive &receive) override;
    bool take(bookmark::Comm &comm, bookmark::Drained &message) override;
    void take_matched(bookmark::Matched &matched, bookmark::Drained &message) override;
    bool taken(bookmark::Drained &message) override;
    void deliver(bookmark::Receive &receive, const bookmark::Drained &message) override;
    bool settled(bool at_cut) override;

    // Creates and frees a communicator of this process alone, for unpacking drained messages.
    void begin();
    void end();
    // Tests a request under way in the library, and records its completion.
    bool ask(Request &request);
    void progress(); // lets the library make progress

    uint64_t withdrawn() const { return withdrawn_; }
    uint64_t drained() const { return drained_; }

    // Requests under way that are not receives.
    Requests under_way;

  private:
    void begin_taking(MPI_Message real, const MPI_Status &status, bookmark::Drained &message);

    MPI_Comm self_ = nullptr;
    uint64_t withdrawn_ = 0;
    uint64_t drained_ = 0;
};

bookmark::Arrival arrival_of(const MPI_Status &status, int error);

// The library's communicator.
inline MPI_Comm real_of(const bookmark::Comm &comm)
{
    return static_cast<MPI_Comm>(static_cast<Object *>(comm.user)->real);
}

} // namespace cryo::mpi::rank
