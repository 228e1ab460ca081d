// SPDX-License-Identifier: Apache-2.0
// The functions that libcryo_ckpt looks up (cryo_ckpt.h).
#include "mpi/rank/versions.hpp"
#include "cryo_ckpt.h"
#include "mpi/stock/fatal.hpp"
#include "mpi/wrap/wrapper.hpp"

using namespace cryo::mpi;
using cryo::bookmark::Version;

EXPORTED int cryo_mpi_ckpt()
{
    if (!rank::engine_counts)
        return CKPT_NOT_COVERED;
    const Inside inside;
    switch (rank::save_version()) {
    case Version::saved:
        return CKPT_SAVED;
    case Version::straddled:
        return CKPT_STRADDLED;
    default:
        break;
    }
    if (rank_in(MPI_COMM_WORLD) == 0)
        say("MPI_Ckpt: the job was not saved; `ompi-checkpoint PID` of its launcher tells why");
    return CKPT_FAILED;
}

EXPORTED int cryo_global_ckpt()
{
    if (!rank::engine_counts)
        return CKPT_NOT_COVERED;
    const Inside inside;
    rank::ask_for_checkpoint();
    return CKPT_SAVED;
}

EXPORTED int cryo_ckpt_restarts()
{
    return rank::engine_counts ? static_cast<int>(rank::restarts()) : 0;
}
