// SPDX-License-Identifier: Apache-2.0
//
// Whether the calling thread is in the program or in an MPI function. Every wrapper begins with
//
//     const Inside inside;
//
// which loads the stock library in the first call of the process, lets this thread enter it, and,
// while a checkpoint is pending, stops the thread before the function does anything and again
// before it returns. Without a checkpoint that costs two counters and two loads of a flag.
#pragma once

#include "mpi/capsule/capsule.hpp"

#include <atomic>

namespace cryo::mpi {

// Loads the stock library in the first call of the process, and lets this thread enter it.
void ready_slowly();
inline void ready()
{
    if (__builtin_expect(!capsule::entered(), 0))
        ready_slowly();
}

namespace rank {

// How many MPI functions this thread is inside (callbacks may call more).
extern __thread int depth __attribute__((tls_model("initial-exec"), visibility("hidden")));

// Messages have come from the tree, or a checkpoint is under way. Loops inside the capsule end
// when this is set.
extern volatile bool must_attend __attribute__((visibility("hidden")));

// `engine_counts`: an engine counts this job's messages. `several_threads`: several program threads
// may call MPI.
extern bool engine_counts __attribute__((visibility("hidden")));
extern bool several_threads __attribute__((visibility("hidden")));

// Number of MPI calls so far, to recognize consecutive calls; not exact with `several_threads`.
extern unsigned long mpi_calls __attribute__((visibility("hidden")));

// With `several_threads`: threads that are inside an MPI function and have not stopped.
extern std::atomic<int> running __attribute__((visibility("hidden")));

void stand_still(); // only while an engine is on, and at depth 1

} // namespace rank

class Inside
{
  public:
    Inside()
    {
        // Count first: an uncounted thread could be restored after ready() and before the call.
        if (rank::depth++ == 0 && rank::several_threads)
            rank::running++;
        std::atomic_signal_fence(std::memory_order_seq_cst);
        rank::mpi_calls++;
        ready();
        if (__builtin_expect(rank::must_attend, 0) && rank::depth == 1)
            rank::stand_still();
    }
    ~Inside()
    {
        if (__builtin_expect(rank::must_attend, 0) && rank::depth == 1)
            rank::stand_still();
        if (rank::depth == 1 && rank::several_threads)
            rank::running--;
        rank::depth = rank::depth - 1;
        // A signal that arrived just now found this thread still inside.
        std::atomic_signal_fence(std::memory_order_seq_cst);
        if (__builtin_expect(rank::must_attend, 0) && rank::depth == 0)
            left_late();
    }
    Inside(const Inside &) = delete;
    Inside &operator=(const Inside &) = delete;

  private:
    static void left_late();
};

} // namespace cryo::mpi
