// SPDX-License-Identifier: Apache-2.0
//
// Writes the saved contents of a file into a new file beside it, which replaces it at the very end.
// A missing directory is created, but only the last one of the path.
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
