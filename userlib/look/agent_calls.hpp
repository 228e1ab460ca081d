// SPDX-License-Identifier: Apache-2.0
//
// The system calls that Cryo makes in a program by itself, and whether a filter of the program's
// own (seccomp) lets them pass: the agent works in the program, under that filter.
//
//     if (const AgentCall *call = first_stopped(filter.program(), agent_calls()))
//         // not allowed: call->name
#pragma once

#include <cstdint>
#include <linux/filter.h>
#include <span>

namespace cryo::capture {

struct AgentCall {
    long number;
    const char *name;
    bool is_dispensable = false; // Cryo does without where it gets EPERM or ENOSYS
    int known_argument = -1;     // has one of the values, and all others are not known
    std::span<const uint64_t> values = {};
};

// What the agent calls by itself, in whatever program (userlib/agent). What stands in front of the
// C library makes calls that the program has asked for, or their like.
std::span<const AgentCall> agent_calls();

// The first of them that the filter may not let pass; null: it lets all pass.
const AgentCall *first_stopped(std::span<const sock_filter> filter,
                               std::span<const AgentCall> calls);

// What comes after the last filter is put on in a restart: in the restorer, and at the end of the
// handler in which the thread was saved.
std::span<const AgentCall> calls_after_filters();

// What comes in a restart between two filters of a thread. The program may have put on the second
// by another call (prctl), which tells the kernel less.
std::span<const AgentCall> calls_between_filters();

} // namespace cryo::capture
