// SPDX-License-Identifier: Apache-2.0
//
// By what a checkpointer finds the door of an agent (door.cpp) among a process's descriptors: it is
// what is left of a file that was called "cryo.PID.", and 16 hexadecimal digits. PID is that of the
// process in its own pid namespace: a child of a bare clone(2) has its parent's door, and none of
// its own.
#pragma once

namespace cryo::agent {

constexpr char door_name[] = "cryo.";
// Unless the program wants that number it is the first free one from here on; from the other one on
// where RLIMIT_NOFILE is low.
constexpr int door_fd = 960;
constexpr int low_door_fd = 100;

} // namespace cryo::agent
