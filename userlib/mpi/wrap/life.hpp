// SPDX-License-Identifier: Apache-2.0
//
// How far the program is with MPI. It is the program's own history, so it is in its image, and a
// new library is brought to the same point after a restart.
#pragma once

namespace cryo::mpi {

struct Life {
    bool initialized;
    bool by_init_thread; // MPI_Init_thread(…, level, …), else MPI_Init
    int level;
    int provided;
    bool finalized;
    bool has_sessions; // or had
};

extern Life life;

} // namespace cryo::mpi
