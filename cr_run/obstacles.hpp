// SPDX-License-Identifier: Apache-2.0
//
// What will keep a program from being saved and is known before it starts, each on a line of
// standard error: its file, what it inherits of this process, the standard streams.
#pragma once

#include <string>

// `program`: the word for execvp. `filter`: what is wrong with our filters of system calls, which
// stay in force across exec; empty: nothing.
void tell_obstacles(const std::string &program, const std::string &filter);

// Whether the program would end at once if Cryo's library were preloaded.
bool ends_by_preloading(const std::string &program);
