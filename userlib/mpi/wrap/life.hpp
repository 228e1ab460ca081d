// SPDX-License-Identifier: Apache-2.0
//
// How far the program is with MPI. It is the program's own history, so it is in its image, and a
// new library is brought to the same point after a restart.
#pragma once

namespace cryo::mpi {

struct Life {
    bool initialized;    // by the program
    bool begun;          // the library's MPI_COMM_WORLD is there: MPI_Init, or begin_for_sessions()
    bool by_init_thread; // MPI_Init_thread(…, level, …), else MPI_Init
    int level;
    int provided;
    bool is_for_sessions; // the first session has begun it
    int granted;          // then: what MPI_Init_thread has told the program
    bool finalized;
    unsigned sessions; // that are open
    bool is_uncounted; // sessions are, or were, open after MPI_Finalize
};

extern Life life;

// Before the first session: MPI_COMM_WORLD, by which messages are counted and communicators made
// again, though the program does not see it. Ends when the program exits.
void begin_for_sessions();
// The thread that may end it, in whichever process this is by now.
void own_world();

} // namespace cryo::mpi
