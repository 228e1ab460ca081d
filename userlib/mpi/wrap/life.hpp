// SPDX-License-Identifier: Apache-2.0
//
// The program's progress through MPI. It belongs to the program, so it is part of its image, and a
// new library is brought to the same point after a restart.
#pragma once

namespace cryo::mpi {

struct Life {
    bool initialized;    // by the program
    bool begun;          // the library's MPI_COMM_WORLD exists: MPI_Init, or begin_for_sessions()
    bool by_init_thread; // MPI_Init_thread(…, level, …), else MPI_Init
    int level;
    int provided;
    bool is_for_sessions; // the first session initialized the library
    int granted;          // then: the level that MPI_Init_thread reported to the program
    bool finalized;
    unsigned sessions; // number of open ones
    bool is_uncounted; // sessions are, or were, open after MPI_Finalize
};

extern Life life;

// Called before the first session: creates MPI_COMM_WORLD, which is needed to count messages and to
// recreate communicators, though the program does not see it. It ends when the program exits.
void begin_for_sessions();
// Whether all sessions have ended, the program has used MPI by nothing else, and so it ends when
// the process exits.
bool ends_with_process();
// Notes that this process, and no forked child, may end it.
void own_world();

} // namespace cryo::mpi
