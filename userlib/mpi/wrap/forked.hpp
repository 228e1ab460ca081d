// SPDX-License-Identifier: Apache-2.0
//
// A child that fork() has made of a rank has copies of all that the rank has of MPI, and must not
// use them. It is saved as any program is: without the library, and without the rank's handles,
// which are not described there. In the restored copy it gets no library, as MPI_Init would take
// the rank's place.
//
//     note_fork();                        // in the child
//     if (is_forked())                    // it has not begun MPI itself
//         return may_be_saved_forked(why);
#pragma once

#include "agent/lodger.hpp"

namespace cryo::mpi {

void note_fork();
// This process begins MPI itself.
void forget_fork();
bool is_forked();

// May be called in a signal handler. False: the child uses what only a rank gets back.
bool may_be_saved_forked(agent::LodgerRefusal &why);

// In a restored copy, at a call that needs a library: refuses one that would be the rank's.
void refuse_forked();

} // namespace cryo::mpi
