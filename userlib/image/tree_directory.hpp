// SPDX-License-Identifier: Apache-2.0
//
// Checks and removes a directory of images that holds an old snapshot: tree.cryo must be readable
// and names the files that belong to it. If anything else lies there, nothing is removed.
//
//     Result<void> ours = check_tree_directory(parent, "context.d");
//     Result<void> gone = remove_tree_directory(parent, "context.d");
//
// A directory that is being built has a hidden name, and its maker holds a lock on it: one that
// nobody holds was left by a checkpoint that was killed.
//
//     remove_left_over(parent, "context.d");
//     Result<Building> built = make_building(parent, "context.d");
#pragma once

#include "base/directory.hpp"
#include "base/fd.hpp"

#include <string>

namespace cryo::image {

// ENOTEMPTY: it has other files than the images of a tree, or its tree.cryo cannot be used.
Result<void> check_tree_directory(const Directory &parent, const std::string &name);
// Checks as above, then removes all of it.
Result<void> remove_tree_directory(const Directory &parent, const std::string &name);

struct Building {
    std::string name;
    Fd lock; // on a file system without locks it holds none
};
// A new directory that will be `name`.
Result<Building> make_building(const Directory &parent, const std::string &name);
// Keeps remove_left_over() from a directory that has such a name, until the descriptor is closed.
Fd hold_directory(const Directory &parent, const std::string &name);
// Whether a lock on a directory of such a file system (statfs::f_type) is seen by all who use it.
// Of NFS and FUSE, for example, each node has locks of its own.
bool has_locks_for_all(long type);
// Removes the caller's directories that were to be `name`, are held by nobody, and contain nothing
// but what a checkpoint writes; only where locks tell that for sure.
void remove_left_over(const Directory &parent, const std::string &name);

} // namespace cryo::image
