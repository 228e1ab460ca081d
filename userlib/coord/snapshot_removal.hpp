// SPDX-License-Identifier: Apache-2.0
//
// Removes a snapshot's directory, by descriptors, if it was made here: what the metadata named it
// by is in its file .cryo-snapshot. Only files that a checkpoint makes are removed; when something
// else lies among them, it stays, and so does the directory.
//
//     Result<Directory> made = make_marked(top, 3, mark);          // .3.tmp
//     Result<void> gone = remove_marked(top, 3, mark);             // 3 and .3.tmp
#pragma once

#include "base/directory.hpp"

#include <string>

namespace cryo::coord {

inline constexpr const char *token_name = "token";

std::string unfinished_name(int seq); // of its directory, as long as it is not finished
// What unfinished_name() gave it for; −1: that is none.
int unfinished_seq_of(const std::string &name);

Result<Directory> make_marked(const Directory &top, int seq, const std::string &mark);
// It may be gone already, or never have been there.
Result<void> remove_marked(const Directory &top, int seq, const std::string &mark);

} // namespace cryo::coord
