// SPDX-License-Identifier: Apache-2.0
#include "mpi/wrap/clock.hpp"

#include "base/clock.hpp"
#include "mpi/wrap/wrapper.hpp"
#include "sys/clock.hpp"

#include <atomic>
#include <time.h>

namespace cryo::mpi {

namespace {

int64_t held;                         // the clock's value at the checkpoint, in nanoseconds
constinit std::atomic<int64_t> shift; // added to this machine's clock

int64_t now_raw()
{
    return sys::monotonic_ns() + shift.load();
}

} // namespace

void hold_clock()
{
    held = now_raw();
}

void let_clock_go_on()
{
    shift.fetch_add(held - now_raw());
}

} // namespace cryo::mpi

using namespace cryo::mpi;

EXPORTED double PMPI_Wtime()
{
    const int64_t now = cryo::clock_ns(CLOCK_MONOTONIC) + shift.load(std::memory_order_relaxed);
    return static_cast<double>(now) / 1e9;
}
ALIAS(MPI_Wtime, PMPI_Wtime)
