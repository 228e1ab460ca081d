// SPDX-License-Identifier: Apache-2.0
//
// What Open MPI's Fortran and C++ binding libraries, which run on top of the wrappers, read of the
// C library beside MPI functions.
//
//     fortran_state_changed();        // after MPI_Init and MPI_Finalize
//     mirror_communicator(object);    // before the Fortran library gets a communicator
#pragma once

#include "mpi/wrap/objects.hpp"

namespace cryo::mpi {

void fortran_state_changed();
// Ends the program if it uses a release of them that is not known here.
void refuse_unknown_fortran();

// MPI_ALLTOALLW looks into a communicator for its size.
void mirror_communicator(Object *object);

} // namespace cryo::mpi
