// SPDX-License-Identifier: Apache-2.0
//
// Where a job's parts come together: the daemon of the node, who takes images; the process
// checkpointer, which leaves the library out of them; and the engine, which brings the rank to
// where it can be saved.
//
//     join_job();      // at the end of MPI_Init
#pragma once

namespace cryo::mpi::rank {

// Does nothing where there is no daemon. A rank that cannot reach one says so and runs on.
void join_job();

} // namespace cryo::mpi::rank
