// SPDX-License-Identifier: Apache-2.0
//
// Checks and removes a directory of images that holds an old snapshot: tree.cryo must be readable
// and names the files that belong to it. If anything else lies there, nothing is removed.
//
//     Result<void> ours = check_tree_directory(parent, "context.d");
//     Result<void> gone = remove_tree_directory(parent, "context.d");
#pragma once

#include "base/directory.hpp"

#include <string>

namespace cryo::image {

// ENOTEMPTY: it has other files than the images of a tree, or its tree.cryo cannot be used.
Result<void> check_tree_directory(const Directory &parent, const std::string &name);
// Checks as above, then removes all of it.
Result<void> remove_tree_directory(const Directory &parent, const std::string &name);

} // namespace cryo::image
