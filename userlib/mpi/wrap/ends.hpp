// SPDX-License-Identifier: Apache-2.0
//
// How this rank ends, told to the daemon of its node before it does (coord/rank_end.hpp).
#pragma once

namespace cryo::mpi {

void tell_of_ends(); // from now on, in MPI_Init

} // namespace cryo::mpi
