// SPDX-License-Identifier: Apache-2.0
// The library that programs link with (-lcryo_ckpt). It knows neither MPI nor Cryo: the library
// that cr_run loads in front of MPI exports the functions under names of its own; if it is absent,
// nothing is saved.
#include "cryo_ckpt.h"

#include <cstddef>
#include <cstring>
#include <dlfcn.h>

namespace {

int ask(const char *function, int otherwise)
{
    void *found = dlsym(RTLD_DEFAULT, function);
    return found != nullptr ? reinterpret_cast<int (*)()>(found)() : otherwise;
}

int (*tell_placement)(cryo_placement *);

// Before anybody asks in a signal handler, where dlsym() may not be called.
[[gnu::constructor]] void find()
{
    tell_placement =
        reinterpret_cast<int (*)(cryo_placement *)>(dlsym(RTLD_DEFAULT, "cryo_ckpt_placement"));
}

// All but the size.
void clear(cryo_placement *placement)
{
    memset(reinterpret_cast<char *>(placement) + sizeof(placement->size), 0,
           placement->size - sizeof(placement->size));
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

int ckpt_placement(cryo_placement *placement)
{
    constexpr size_t first_size = offsetof(cryo_placement, weights) + sizeof(placement->weights);
    if (placement == nullptr || placement->size < first_size)
        return CKPT_FAILED;
    if (tell_placement != nullptr)
        return tell_placement(placement);
    clear(placement);
    return CKPT_NOT_COVERED;
}

int ckpt_on_restart(void (*function)(void *), void *argument)
{
    void *found = dlsym(RTLD_DEFAULT, "cryo_ckpt_on_restart");
    return found != nullptr
               ? reinterpret_cast<int (*)(void (*)(void *), void *)>(found)(function, argument)
               : CKPT_NOT_COVERED;
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
