// SPDX-License-Identifier: Apache-2.0
//
// Connects the parts of a job: the node's daemon, which takes images; the process checkpointer,
// which leaves the library out of them; and the engine, which brings the rank to a point where it
// can be saved.
//
//     join_job();      // at the end of MPI_Init
#pragma once

namespace cryo::mpi {

// Does nothing if there is no daemon. A rank that cannot reach its daemon reports it and runs on.
void join_job();

} // namespace cryo::mpi
