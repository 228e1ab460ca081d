// SPDX-License-Identifier: Apache-2.0
//
// State of the C library that Open MPI's Fortran and C++ binding libraries, which run on top of the
// wrappers, read besides calling MPI functions.
//
//     fortran_state_changed();        // after MPI_Init and MPI_Finalize
//     mirror_communicator(object);    // before the Fortran library gets a communicator
//
// "Newer" means 5.0, where some offsets differ from those in 4.1. After a restart the capsule's
// library may be of another release than the program's Fortran library.
#pragma once

#include "mpi/stock/objects.hpp"

namespace cryo::mpi {

void fortran_state_changed();
// Called once the capsule is open: detects the releases.
void know_releases();
bool library_is_newer();
bool fortran_is_newer();

// MPI_ALLTOALLW reads the size from the communicator's memory.
void mirror_communicator(Object *object);

} // namespace cryo::mpi
