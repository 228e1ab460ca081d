// SPDX-License-Identifier: Apache-2.0
//
// How a checkpointer recognises an agent's "door" (agent/door.cpp) among a process's descriptors:
// it is an unlinked file that was named "cryo.PID." followed by 16 hexadecimal digits. PID is the
// process's id in its own pid namespace, so a door that a child of a bare clone(2) inherited is not
// taken for a door of its own.
#pragma once

namespace cryo::agent {

constexpr char door_name[] = "cryo.";
// The first free number from here on, unless the program wants that number; where RLIMIT_NOFILE is
// low, the first free one from the second constant on.
constexpr int door_fd = 960;
constexpr int low_door_fd = 100;
// The mode of a door (glossary.md) to which nobody may connect: the kernel passes the program's
// system calls to the program itself (PR_SET_SYSCALL_USER_DISPATCH). The system calls of the agent
// would be passed to it, too, and most programs would end by that.
constexpr unsigned no_knocking = 01000; // S_ISVTX
// In the mode of a door: a thread of the process is under rules of its own (Landlock).
constexpr unsigned confined_inside = 04000; // S_ISUID
// The time of modification of a door, in seconds: the checkpoint signal, if it is not the usual one
// or the rest is not zero, and this many for each filter of system calls that the program has from
// its surroundings (look/filters.hpp). No real time is that early.
constexpr int door_filter = 256;
constexpr int most_door_filters = 255;

} // namespace cryo::agent
