// SPDX-License-Identifier: Apache-2.0
//
// The clock of MPI_Wtime: after a restart it continues from its value at the checkpoint. The
// library's own clock starts anew with each library, so that time would run backwards.
//
//     hold_clock();      // the program is stopped
//     let_clock_go_on(); // in the restored copy
//
// RULE: both may be called in a signal handler.
#pragma once

namespace cryo::mpi {

void hold_clock();
void let_clock_go_on();

} // namespace cryo::mpi
