// SPDX-License-Identifier: Apache-2.0
//
// Profiling tools that a program is linked with: libraries that define MPI_Send and call PMPI_Send.
// They stand in front of the MPI library where the program is linked, and behind this one, which is
// preloaded. So before the program begins, MPI_Send here is led to the tool's (Front of
// mpi/stock/exported.hpp), whose PMPI_Send is the one here.
//
// Functions of the program's own, and those of tools that are preloaded, are found before ours.
//
//     tell_profilers_left_out();  // at the first call of MPI: names what is not called
#pragma once

namespace cryo::mpi {

void tell_profilers_left_out();

} // namespace cryo::mpi
