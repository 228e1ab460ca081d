// SPDX-License-Identifier: Apache-2.0
// Lasting reasons why a rank cannot be saved.
#include "mpi/rank/engine.hpp"
#include "mpi/stock/fatal.hpp"

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

// Reports a hindrance as soon as a checkpoint is requested: this rank may wait in the library,
// unknown to the tree, for a rank that would otherwise stop.
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
