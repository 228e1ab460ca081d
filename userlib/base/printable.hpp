// SPDX-License-Identifier: Apache-2.0
//
// Text on its way to a terminal. Names of files and programs, what an image or another program
// says: all of these hold whatever somebody has put there, also what makes a terminal do things, or
// what looks like a line of ours.
//
//     fmt::print(stderr, "{}: {}\n", command, printable_message(error.text()));
//     problems.add("file " + printable(path), ...);     // one of several lines
#pragma once

#include <string>
#include <string_view>

namespace cryo {

// Control characters are escaped, newlines among them, and so are bytes that are no UTF-8 and
// characters that change the direction of what follows.
std::string printable(std::string_view text);

// The same of a message of several lines, of which all but the first begin with two blanks: only
// such a newline stays.
std::string printable_message(std::string_view text);

} // namespace cryo
