// SPDX-License-Identifier: Apache-2.0
//
// Makes text safe for a terminal. Names of files and programs, and text from an image or another
// program, may contain anything, including terminal control sequences and imitations of our own
// output.
//
//     fmt::print(stderr, "{}: {}\n", command, printable_message(error.text()));
//     problems.add("file " + printable(path), ...);     // one of several lines
#pragma once

#include <string>
#include <string_view>

namespace cryo {

// Escapes control characters, including newlines, bytes that are not UTF-8, and characters that
// change the text direction.
std::string printable(std::string_view text);

// As printable(), for a message of several lines, of which all but the first begin with two blanks:
// a newline before two blanks stays.
std::string printable_message(std::string_view text);

// Whether all of it is UTF-8. JSON holds no other text.
bool is_utf8(std::string_view text);

} // namespace cryo
