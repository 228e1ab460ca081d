// SPDX-License-Identifier: Apache-2.0
//
// The services that the rank engine uses of the code for sockets, images and restarts. Tests supply
// their own.
//
//     static Hooks hooks = {.channel = &link, .take_image = take, .revive = revive};
//     begin(hooks);               // after MPI_Init
//
// RULE: all of it runs while the program is stopped, perhaps inside malloc.
#pragma once

#include "bookmark/rank.hpp"
#include "mpi/capsule/capsule.hpp"

namespace cryo::mpi::rank {

// The connection to the node's daemon.
class Channel : public bookmark::Link
{
  public:
    using Arrived = void (*)();

    // Starts to call `arrived` when messages have arrived: in a signal handler, in any thread, with
    // either world's thread-local storage; or when a function of this class returns.
    virtual void listen(Arrived arrived) = 0;
    virtual void close() = 0;
    virtual int descriptor() const = 0; // readable when a message has arrived
    // Calls rank.handle() for every message received. False: the connection has ended.
    virtual bool receive(bookmark::Rank &rank) = 0;
};

enum class TookImage : uint8_t {
    saved,
    failed,
    restored, // this is the restored copy, which has no library
};

struct Hooks {
    Channel *channel = nullptr;
    void *data = nullptr;
    // Called when nothing is in flight to or from this rank. Null: nothing is saved.
    TookImage (*take_image)(void *data) = nullptr;
    // In the restored copy: loads a new library and recreates the program's handles in it.
    bool (*revive)(void *data, capsule::Refusal &why) = nullptr;
};

} // namespace cryo::mpi::rank
