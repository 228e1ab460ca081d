// SPDX-License-Identifier: Apache-2.0
//
// Which programs get the library that stands in for Open MPI's. In any other it would be harmless,
// but for those of another MPI: they have functions of the same names.
//
//     if (is_for_open_mpi("mpirun")) preload(library("libcryo_openmpi.so"));
#pragma once

#include <string>

// The program needs Open MPI's library, or starts programs that may; or this command was itself
// started by Open MPI's mpirun, and the program is not another MPI's. `program` as for execvp.
bool is_for_open_mpi(const std::string &program);
