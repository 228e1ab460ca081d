// SPDX-License-Identifier: Apache-2.0
//
// The file that is written beside one whose contents were saved, and that takes its place at the
// very end. Where the directory is gone, it is made: only the last one of its path.
//
//     Result<Beside> made = make_beside(p, file);
//     p.plan.replacements.add({made->path, ...}); // removes it if the restart fails
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "restore/open_parts.hpp"

namespace cryo::restore {

struct Beside {
    Fd fd;
    std::string path;
};

// EPERM: it has the counters of a JVM, and the directory is there and not safe from other users.
Result<Beside> make_beside(Planning &p, const image::File &file);

} // namespace cryo::restore
