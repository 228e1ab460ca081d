// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a job are: cr_placement() asks the library that cr_run loads in front of MPI.
#include "libcr/edge.hpp"

#include "cryo_placement.h"

#include <cerrno>
#include <cstddef>
#include <dlfcn.h>

namespace {

constexpr int told = 0;        // CKPT_SAVED
constexpr int not_covered = 2; // CKPT_NOT_COVERED
int (*tell_placement)(cryo_placement *);

// Before anybody asks in a signal handler, where dlsym() may not be called.
[[gnu::constructor]] void find()
{
    tell_placement =
        reinterpret_cast<int (*)(cryo_placement *)>(dlsym(RTLD_DEFAULT, "cryo_ckpt_placement"));
}

} // namespace

extern "C" int cr_placement(cryo_placement *placement)
{
    constexpr size_t first_size = offsetof(cryo_placement, weights) + sizeof(placement->weights);
    if (placement == nullptr || placement->size < first_size)
        return cryo::libcr::fail(EINVAL);
    const int result = tell_placement != nullptr ? tell_placement(placement) : not_covered;
    return result == told ? 0 : cryo::libcr::fail(result == not_covered ? ENOENT : EINVAL);
}
