// SPDX-License-Identifier: Apache-2.0
//
// A directory of images that an old snapshot was, and its removal: tree.cryo, which could be read,
// names what belongs to it. Whatever else lies there is somebody's, and stays.
//
//     Result<void> ours = check_tree_directory(parent, "context.d");
//     Result<void> gone = remove_tree_directory(parent, "context.d");
#pragma once

#include "base/directory.hpp"

#include <string>

namespace cryo::image {

// ENOTEMPTY: there is more in it than the images of a tree, or not that tree.
Result<void> check_tree_directory(const Directory &parent, const std::string &name);
// All of it, or nothing.
Result<void> remove_tree_directory(const Directory &parent, const std::string &name);

} // namespace cryo::image
