// SPDX-License-Identifier: Apache-2.0
//
// Removes a snapshot's directory, by descriptors, if it was made here: its file
// .cryo-snapshot must have the mark from the metadata. Only files that a checkpoint
// makes are removed; anything else among them stays, and so does the directory.
//
//     Result<Directory> made = make_marked(top, 3, mark);          // .3.tmp
//     Result<void> gone = remove_marked(top, 3, mark);             // 3 and .3.tmp
#pragma once

#include "base/directory.hpp"

#include <string>

namespace cryo::coord {

inline constexpr const char *token_name = "token";
// Directories in a snapshot's, which go with it: where images are made again
// (healing_place.hpp), and what nodes have brought for that (node_copies.hpp).
inline constexpr const char *healed_name = ".healed";
inline constexpr const char *brought_name = ".brought";

std::string unfinished_name(int seq); // name of its directory until it is finished
// The number that unfinished_name() got; −1: not such a name.
int unfinished_seq_of(const std::string &name);

Result<Directory> make_marked(const Directory &top, int seq, const std::string &mark);
// No error if it is gone already, or never was there.
Result<void> remove_marked(const Directory &top, int seq, const std::string &mark);

} // namespace cryo::coord
