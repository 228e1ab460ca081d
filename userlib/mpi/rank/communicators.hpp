// SPDX-License-Identifier: Apache-2.0
//
// Communicators as the rank engine counts them.
#pragma once

#include "mpi/rank/engine.hpp"

#include <memory_resource>
#include <vector>

namespace cryo::mpi::rank {

using WorldRanks = std::pmr::vector<int>;

// The world ranks of a group, which is given back.
WorldRanks world_ranks(MPI_Group group);

// Messages to these peers are counted from now on.
bookmark::Comm &count(Object *object, bookmark::CommId id, const WorldRanks &peers,
                      uint32_t members);

// A communicator that has just been made, by all its members: of one parent, in a collective; or
// with an id that these have agreed on, those of both sides of an inter-communicator by themselves.
void count_made(Object *object, bookmark::CommId parent, uint64_t ordinal);
void count_made(Object *object, bookmark::CommId id);

} // namespace cryo::mpi::rank
