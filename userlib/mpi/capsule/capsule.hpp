// SPDX-License-Identifier: Apache-2.0
//
// The capsule: a stock MPI library in a world of its own inside this process. It has its own
// dynamic linker, libc, heap, threads and descriptors, and lies whole in one reserved range of
// addresses. What is above this header knows nothing of how that is done.
//
//     capsule::Refusal why;
//     if (!capsule::open({.library = "libmpi.so.40", .environment = environ}, why))
//         die(why.text);
//     auto rank = capsule::function<int (*)(MPI_Comm, int *)>("PMPI_Comm_rank");
//     if (!capsule::enter(why))           // once in every thread that calls
//         die(why.text);
//     capsule::call(rank, world, &mine);
//     capsule::discard(why);              // after MPI_Finalize: nothing of it is left; may be
//     opened again
//
// docs/capsule.md says what the capsule promises and what it relies on.
#pragma once

#include "mpi/capsule/cross.hpp"

#include <cstddef>
#include <cstdint>

namespace cryo::capsule {

// Why something was not done: the thing, the cause and the way out. Never allocates.
struct Refusal {
    char text[512];
};

struct Options {
    const char *library;      // the stock library, as dlopen finds it
    char *const *environment; // what the capsule sees; LD_PRELOAD is left out
    // A variable that tells the number of the library's way to its launcher, which is the capsule's
    // from then on; null: it has none.
    const char *descriptor = nullptr;
};

// The value of a variable of this environment, or null.
const char *variable(char *const *environment, const char *name);

// Loads the library. The calling thread has entered afterwards.
bool open(const Options &options, Refusal &why);
bool is_open();

// Gives the calling thread what it needs to call into the capsule. Cheap when it has entered.
bool enter_slowly(Refusal &why);
inline bool enter(Refusal &why)
{
    return entered() || enter_slowly(why);
}

// The address of one of the library's functions or objects; null if it has none of that name.
// The calling thread must have entered.
void *symbol(const char *name);

template <class Function>
Function function(const char *name)
{
    return reinterpret_cast<Function>(symbol(name));
}

// True for an address inside the capsule.
bool owns(const void *address);

// True for a descriptor that is the capsule's and not the program's.
bool owns_descriptor(int descriptor);

// Writes out what the library has in stdio's buffers. The calling thread must have entered.
void flush();

// Throws the capsule away: its threads end, its descriptors are closed, its range is unmapped. For
// a library that was finalized; no other thread may be inside. Refused, with the capsule as it was,
// if a thread of the library does not end.
bool discard(Refusal &why);

// For images, in which no capsule is: what they leave out. Both may be called in a signal handler.
struct Range {
    uintptr_t start, end;
};
bool range(unsigned number, Range &range); // one after the other; false: no more
bool owns_thread(int tid);

// Lets the calling thread in with the storage of the thread that opened the capsule, and out again:
//
//     AsFirst entered;
//
// For a signal handler that runs while all other threads stand still outside the capsule.
class AsFirst
{
  public:
    AsFirst();
    ~AsFirst();
    AsFirst(const AsFirst &) = delete;
    AsFirst &operator=(const AsFirst &) = delete;

  private:
    Binding before_;
    void *way_back_;
};

// In a restored copy of the process: there is no capsule, whatever this memory says. Nothing is
// unmapped or closed, no thread has entered, and one may be opened. May be called in a signal
// handler while no other thread runs.
void forget();

// Memory of Cryo's own, outside the capsule and outside the program's heap; zero-filled, in whole
// pages. Null when there is none left.
void *keep(size_t bytes);
void unkeep(void *memory, size_t bytes);
// Somebody is in one of these: a signal's handler that finds it so must call neither.
bool is_keeping();

} // namespace cryo::capsule
