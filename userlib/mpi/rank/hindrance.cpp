// SPDX-License-Identifier: Apache-2.0
// What keeps a rank from being saved, once it has done it.
#include "mpi/rank/engine.hpp"
#include "mpi/wrap/fatal.hpp"

namespace cryo::mpi::rank {

namespace {

const char *lasting;

} // namespace

const char *hindrance()
{
    return lasting;
}

int uncounted(int result, const MPI_Comm *place, const char *function)
{
    if (on && result == MPI_SUCCESS && place != nullptr && *place != nullptr &&
        object_of(*place) != null_object(Kind::Comm))
        hinder(function);
    return result;
}

void hinder(const char *what)
{
    if (lasting == nullptr)
        lasting = what;
}

// What keeps this rank from being saved is told at once: it may wait in the library, where nobody
// knows of it, for one who would stand still.
void Engine::decline()
{
    const char *what = hindrance();
    if (what == nullptr || rank_.phase() != bookmark::Rank::Phase::asked ||
        declined_ == rank_.epoch())
        return;
    declined_ = rank_.epoch();
    say("rank %u cannot be saved, because of this: %s", self_, what);
    rank_.decline();
}

} // namespace cryo::mpi::rank
