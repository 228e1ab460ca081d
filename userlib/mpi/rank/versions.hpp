// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints that the program requests: the implementation of MPI_Ckpt() and global_ckpt().
#pragma once

#include "bookmark/versions.hpp"

namespace cryo::mpi::rank {

// MPI_Ckpt(), inside a wrapper: all ranks call it.
bookmark::Version save_version();
// global_ckpt(): a call by one rank is enough.
void ask_for_checkpoint();
uint32_t restarts();

} // namespace cryo::mpi::rank
