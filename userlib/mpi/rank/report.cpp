// SPDX-License-Identifier: Apache-2.0
// For tests: reports the engine's statistics in MPI_Finalize.
#include "mpi/rank/engine.hpp"
#include "sys/own_variable.hpp"

#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

namespace cryo::mpi::rank {

void Engine::report() const
{
    const char *path = sys::own_variable("CRYO_TRAFFIC_REPORT");
    if (path == nullptr)
        return;
    const int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    dprintf(fd, "images %lu cuts %lu drained %lu taken %lu withdrawn %lu restarts %u\n", images_,
            rank_.versions().cuts(), drained_, mpi_.drained(), mpi_.withdrawn(),
            rank_.versions().restarts());
    ::close(fd);
}

} // namespace cryo::mpi::rank
