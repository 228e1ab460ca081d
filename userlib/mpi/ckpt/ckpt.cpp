// SPDX-License-Identifier: Apache-2.0
// The library that programs link with (-lcryo_ckpt). It knows neither MPI nor Cryo: the library
// that cr_run loads in front of MPI exports the functions under names of its own; if it is absent,
// nothing is saved.
#include "cryo_ckpt.h"

#include <dlfcn.h>

namespace {

int ask(const char *function, int otherwise)
{
    void *found = dlsym(RTLD_DEFAULT, function);
    return found != nullptr ? reinterpret_cast<int (*)()>(found)() : otherwise;
}

} // namespace

extern "C" {

int MPI_Ckpt()
{
    return ask("cryo_mpi_ckpt", CKPT_NOT_COVERED);
}

int global_ckpt()
{
    return ask("cryo_global_ckpt", CKPT_NOT_COVERED);
}

int ckpt_restarts()
{
    return ask("cryo_ckpt_restarts", 0);
}

void mpi_ckpt_(int *error)
{
    *error = MPI_Ckpt();
}

void global_ckpt_(int *error)
{
    *error = global_ckpt();
}

void ckpt_restarts_(int *count)
{
    *count = ckpt_restarts();
}

} // extern "C"
