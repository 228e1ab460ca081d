// SPDX-License-Identifier: Apache-2.0
//
// What Open MPI's Fortran and C++ binding libraries, which run on top of the wrappers, read of the
// C library beside MPI functions.
//
//     fortran_state_changed();        // after MPI_Init and MPI_Finalize
//     mirror_communicator(object);    // before the Fortran library gets a communicator
//
// Newer is 5.0, in which some places are others than in 4.1. After a restart the capsule's library
// need not be of the release that the program's Fortran library is of.
#pragma once

#include "mpi/wrap/objects.hpp"

namespace cryo::mpi {

void fortran_state_changed();
// Once the capsule is open: finds out which releases there are.
void know_releases();
bool library_is_newer();
bool fortran_is_newer();

// MPI_ALLTOALLW looks into a communicator for its size.
void mirror_communicator(Object *object);

} // namespace cryo::mpi
