// SPDX-License-Identifier: Apache-2.0
// Symbolic links: an open file that is one only refers to it (O_PATH), which says all about it.
#include "resources/every_kind.hpp"
#include "resources/paths.hpp"

namespace cryo::resources {

const Kind symlink_kind = {.is = is_file<S_IFLNK>};

} // namespace cryo::resources
