// SPDX-License-Identifier: Apache-2.0
//
// Named memory (/dev/shm) in the restart of a job: several ranks of a node may share it, and each
// has it in its image. The first of them writes it into a file beside it, whose name they all know;
// the others find that, and so they share it again. What a restart leaves that is killed is removed
// by the job's daemon, or a later one (coord/left_memory.hpp).
//
//     if (const std::optional<std::string> beside = beside_for_ranks(file)) {
//         Result<std::optional<CommonMemory>> found = CommonMemory::open(*beside, is_there);
//         ... write the contents to (*found)->fd, unless it has them, and then rename
//         (*found)->path
//     }
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/records.hpp"

#include <functional>
#include <optional>
#include <string>

namespace cryo::restore {

// Nothing: this is no restart of a job, or the file is not in /dev/shm.
std::optional<std::string> beside_for_ranks(const image::File &file);

// The file that has its name, if it has its size, whatever its mode is. Nothing: what is there is
// not what was saved. An error: that is not known, and another rank may have put it there.
Result<std::optional<Fd>> open_in_place(const image::File &file);

struct CommonMemory {
    Fd fd;
    std::string path; // a name that only this rank renames
    Fd lock;          // while it is open, other ranks wait

    // Waits for a rank that is writing it. Nothing: the file has been put into its place, which
    // `is_there` tells.
    static Result<std::optional<CommonMemory>> open(const std::string &beside,
                                                    const std::function<Result<bool>()> &is_there);
};

} // namespace cryo::restore
