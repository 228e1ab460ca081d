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
#include "mpi/stock/exported.hpp"
#include "mpi/stock/fatal.hpp"
#include "mpi/stock/handles.hpp"
#include "mpi/wrap/fortran.hpp"
#include "mpi/wrap/split.hpp"

namespace cryo::mpi {

// Stores the Fortran numbers of the predefined handles, once the library is initialized.
void number_predefined_objects();

// Notes that the program uses a file's shared position. Asked for another file's, MPICH would make
// a file for it, beside the program's own.
inline void uses_shared_position(MPI_File file)
{
    if (file != nullptr)
        object_of(file)->variant = 1;
}

// Waits until everything that MPI_Isendrecv sends has been sent.
void finish_copies();

template <class Handle>
MPI_Fint fortran_number(Handle handle)
{
    return handle == nullptr ? abi::number_of_no_file : number_object(object_of(handle));
}

template <class Handle>
Handle from_fortran(MPI_Fint number)
{
    Object *object = numbered_object(kind_of<Handle>, number);
    if constexpr (kind_of<Handle> == Kind::Comm)
        mirror_communicator(object);
    return handle_of<Handle>(object);
}

// Lengths of arrays of handles that only the communicator determines.
int peers(MPI_Comm comm);   // of an array for alltoallw
int sources(MPI_Comm comm); // neighbours that send to this process
int targets(MPI_Comm comm); // neighbours that it sends to
int rank_in(MPI_Comm comm);

} // namespace cryo::mpi
