// SPDX-License-Identifier: Apache-2.0
//
// What the rank engine is given by those who know sockets, images and restarts. Tests fill in their
// own.
//
//     static Hooks hooks = {.channel = &link, .take_image = take, .revive = revive};
//     begin(hooks);               // after MPI_Init
//
// RULE: all of it runs while the program stands still, perhaps inside malloc.
#pragma once

#include "mpi/bookmark/rank.hpp"
#include "mpi/capsule/capsule.hpp"

namespace cryo::mpi::rank {

// The way to the node's daemon.
class Channel : public bookmark::Link
{
  public:
    using Arrived = void (*)();

    // From now on calls `arrived` when something has come: in a signal handler, in any thread, with
    // either world's thread-local storage; or when a function here returns.
    virtual void listen(Arrived arrived) = 0;
    virtual void close() = 0;
    virtual int descriptor() const = 0; // readable when something has come
    // Calls rank.handle() for every message that has come. False: the connection has ended.
    virtual bool receive(bookmark::Rank &rank) = 0;
};

enum class TookImage : uint8_t {
    saved,
    failed,
    restored, // this is the restored copy: there is no library any more
};

struct Hooks {
    Channel *channel = nullptr;
    void *data = nullptr;
    // Called when nothing is in flight to or from this rank. Null: nothing is saved.
    TookImage (*take_image)(void *data) = nullptr;
    // In the restored copy: a new library, with the program's communicators, types and so on.
    bool (*revive)(void *data, capsule::Refusal &why) = nullptr;
};

} // namespace cryo::mpi::rank
