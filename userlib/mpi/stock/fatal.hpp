// SPDX-License-Identifier: Apache-2.0
//
// say() writes a line to standard error. fatal() reports why Cryo cannot go on and ends the
// process, as an unusable MPI library does.
//
//     say("rank %u cannot be saved", rank);
//     fatal("%s is missing", name);
//     must_have(function, "MPI_Comm_idup_with_info");
//
// All may be called in a signal handler: they write only text and plain numbers, which the C
// library formats without a lock and without memory.
#pragma once

namespace cryo::mpi {

[[gnu::format(printf, 1, 2)]] void say(const char *format, ...);
[[noreturn, gnu::format(printf, 1, 2)]] void fatal(const char *format, ...);

// Ends the program if the library lacks a function that only some releases have.
[[noreturn]] void lacks(const char *name);
template <class Function>
void must_have(Function function, const char *name)
{
    if (function == nullptr)
        lacks(name);
}

} // namespace cryo::mpi
