// SPDX-License-Identifier: Apache-2.0
//
// How a datatype was created, as the library reports it; including functions with large counts,
// where the library has them.
#pragma once

#include "mpi/wrap/replay_kinds.hpp"

namespace cryo::mpi {

int envelope_of_type(MPI_Datatype real, TypeNote &note);
int contents_of_type(MPI_Datatype real, TypeNote &note, MPI_Datatype *parts);
int make_large_type(const TypeNote &note, const MPI_Datatype *parts, MPI_Datatype *made);

} // namespace cryo::mpi
