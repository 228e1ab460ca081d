// SPDX-License-Identifier: Apache-2.0
//
// The capsule holds a stock MPI library, isolated inside this process. It has its own dynamic
// linker, libc, heap, threads and descriptors, and occupies one reserved range of addresses. Code
// that uses this header does not depend on how that is done.
//
//     capsule::Refusal why;
//     if (!capsule::open({.library = "libmpi.so.40", .environment = environ}, why))
//         die(why.text);
//     auto rank = capsule::function<int (*)(MPI_Comm, int *)>("PMPI_Comm_rank");
//     if (!capsule::enter(why))           // once in every thread that calls
//         die(why.text);
//     capsule::call(rank, world, &mine);
//     capsule::discard(why);              // after MPI_Finalize: removes all of it; it can
//     be opened again
//
// docs/capsule.md says what the capsule guarantees and what it relies on.
#pragma once

#include "mpi/capsule/cross.hpp"

#include <cstddef>
#include <cstdint>

namespace cryo::capsule {

// Why an operation was refused: the object, the cause and the remedy. Never allocates.
struct Refusal {
    char text[512];
};

struct Options {
    const char *library;      // the stock library, as dlopen finds it
    char *const *environment; // what the capsule sees, without LD_PRELOAD
    // Name of the variable that holds the descriptor of the library's connection to its launcher;
    // that descriptor becomes the capsule's. Null: there is none.
    const char *descriptor = nullptr;
};

// The value of a variable of this environment, or null.
const char *variable(char *const *environment, const char *name);

// Loads the library. On success the calling thread has entered the capsule.
bool open(const Options &options, Refusal &why);
bool is_open();

// Prepares the calling thread for calls into the capsule. Cheap if it has entered already.
bool enter_slowly(Refusal &why);
inline bool enter(Refusal &why)
{
    return entered() || enter_slowly(why);
}

// The address of a function or object of the library, or null if it has none by that name.
// The calling thread must have entered.
void *symbol(const char *name);

template <class Function>
Function function(const char *name)
{
    return reinterpret_cast<Function>(symbol(name));
}

// True for an address inside the capsule.
bool owns(const void *address);

// True for a descriptor that belongs to the capsule, not to the program.
bool owns_descriptor(int descriptor);

// Called before the library ends this process, or tells its launcher to end the job, in whatever
// thread, once or several times; null: nothing is.
// RULE for that function: as for a signal handler, and no thread-local storage.
void on_giving_up(void (*told)());

// Flushes the stdio buffers inside the capsule. The calling thread must have entered.
void flush();

// Removes the capsule: ends its threads, closes its descriptors, unmaps its range. The library must
// be finalized and no other thread may be inside. Fails, and leaves the capsule mapped, if a thread
// of the library does not end.
bool discard(Refusal &why);

// For images, which leave the capsule out. Both functions may be called in a signal handler.
struct Range {
    uintptr_t start, end;
};
bool range(unsigned number, Range &range); // iterates from 0; false: no more ranges
bool owns_thread(int tid);

// Lets the calling thread use the storage of the thread that opened the capsule, for a while:
//
//     AsFirst entered;
//
// For a signal handler that runs while all other threads are stopped outside the capsule.
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

// Called in a restored copy of the process, where no capsule exists although memory says so.
// Unmaps and closes nothing; resets the state so that a capsule can be opened. May be called in a
// signal handler while no other thread runs.
void forget();

// Memory for Cryo itself, outside the capsule and outside the program's heap; zero-filled, in whole
// pages. Returns null if none is left: all of it together has at most kept_bytes.
constexpr size_t kept_bytes = size_t{64} << 30;
void *keep(size_t bytes);
void unkeep(void *memory, size_t bytes);
// True while a thread is in keep() or unkeep(): a signal handler must then call neither.
bool is_keeping();

} // namespace cryo::capsule
