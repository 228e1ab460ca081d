// SPDX-License-Identifier: Apache-2.0
//
// Where a snapshot of a large MPI job has the directories of its ranks: 1,024 of them together in
// one, as a directory with a hundred thousand others is slow on parallel file systems.
//
//     JOB.ckpt/3/opal_snapshot_5000.ckpt/cryo_context.412             // of a smaller one
//     JOB.ckpt/3/ranks_4/opal_snapshot_5000.ckpt/cryo_context.412
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cryo::image {

inline constexpr uint32_t ranks_in_group = 1024;
inline constexpr std::string_view group_prefix = "ranks_";

inline std::string group_directory(uint32_t rank) // the name of the one that the rank belongs to
{
    return std::string(group_prefix) + std::to_string(rank / ranks_in_group);
}

} // namespace cryo::image
