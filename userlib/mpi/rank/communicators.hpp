// SPDX-License-Identifier: Apache-2.0
//
// Registration of communicators with the rank engine.
#pragma once

#include "mpi/rank/engine.hpp"

#include <memory_resource>
#include <vector>

namespace cryo::mpi::rank {

using WorldRanks = std::pmr::vector<int>;

// The world ranks of a group's members. Frees the group.
WorldRanks world_ranks(MPI_Group group);

// Starts to count messages to these peers.
bookmark::Comm &count(Object *object, bookmark::CommId id, const WorldRanks &peers,
                      uint32_t members);

// Registers a new communicator; called by all of its members. Its id is derived from the parent's
// collective, or agreed on by the members (for an inter-communicator, by each side separately).
void count_made(Object *object, bookmark::CommId parent, uint64_t ordinal);
void count_made(Object *object, bookmark::CommId id);

} // namespace cryo::mpi::rank
