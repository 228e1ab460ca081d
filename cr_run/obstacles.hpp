// SPDX-License-Identifier: Apache-2.0
//
// What will keep a program from being saved and is known before it starts, each on a line of
// standard error: its file, what it inherits of this process, the standard streams.
#pragma once

#include <string>

// `program`: the word for execvp.
void tell_obstacles(const std::string &program);
