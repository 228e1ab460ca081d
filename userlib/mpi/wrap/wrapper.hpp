// SPDX-License-Identifier: Apache-2.0
//
// Common to all wrappers of MPI functions.
//
//     EXPORTED int PMPI_Barrier(MPI_Comm comm)
//     {
//         const Inside inside;
//         return call(stock.Barrier, real_of(comm));
//     }
//     ALIAS(MPI_Barrier, PMPI_Barrier)
#pragma once

#include "functions.gen.hpp"
#include "mpi/capsule/capsule.hpp"
#include "mpi/rank/engine.hpp"
#include "mpi/rank/fruitless.hpp"
#include "mpi/rank/windows.hpp"
#include "mpi/wrap/handles.hpp"
#include "mpi/wrap/split.hpp"

#define EXPORTED extern "C" [[gnu::visibility("default")]]

// Profiling tools define MPI_ names over the weak ones and call PMPI_.
#define ALIAS(name, target)                                                                        \
    extern "C" [[gnu::visibility("default"), gnu::weak, gnu::alias(#target)]] decltype(target)     \
        name; // NOLINT(bugprone-macro-parentheses): what is declared

namespace cryo::mpi {

// Stores the Fortran numbers of the predefined handles, once the library is initialized.
void number_predefined_objects();

// Ends the program if the library lacks a function that only some releases have.
[[noreturn]] void lacks(const char *name);
template <class Function>
void must_have(Function function, const char *name)
{
    if (function == nullptr)
        lacks(name);
}

// Notes that the program uses a file's shared position. Asked for another file's, MPICH would make
// a file for it, beside the program's own.
inline void uses_shared_position(MPI_File file)
{
    if (file != nullptr)
        object_of(file)->variant = 1;
}

// Waits until everything that MPI_Isendrecv sends has been sent.
void finish_copies();

// Lengths of arrays of handles that only the communicator determines.
int peers(MPI_Comm comm);   // of an array for alltoallw
int sources(MPI_Comm comm); // neighbours that send to this process
int targets(MPI_Comm comm); // neighbours that it sends to
int rank_in(MPI_Comm comm);

} // namespace cryo::mpi
