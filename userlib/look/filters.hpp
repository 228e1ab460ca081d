// SPDX-License-Identifier: Apache-2.0
//
// The filters of system calls (seccomp) that a program gets from its surroundings: a container, a
// service. They stay in force for good, and nobody under them can read them back; a restart gives
// the program those of the surroundings that it comes back in. What the agent does in the program
// has to pass them.
//
//     const OwnFilters filters = own_filters();
//     if (!filters.obstacle.empty())
//         say(filters.obstacle); // no program can be saved under them
//
// cr_run and cr_restart try out their own, which are those of the program, and tell the agent how
// many there are (filters_variable). The agent passes that on at its door (protocol/door.hpp): a
// process that has more than these has filters of its own (thread_filters.hpp).
#pragma once

#include <string>
#include <string_view>

namespace cryo::capture {

constexpr const char *filters_variable = "CRYO_FILTERS";

struct OwnFilters {
    unsigned count = 0;   // 0: there are none
    std::string obstacle; // why programs cannot be saved under them; empty: they can
};

// Of the calling thread. Starts a short-lived process if there are some.
OwnFilters own_filters();

// Tries out the caller's filters, and puts their number, or nothing, into its environment. Returns
// the obstacle, if there is one.
std::string note_own_filters();

// From /proc/PID/status; 0: none, or unknown (before Linux 5.9).
unsigned count_filters(std::string_view status);

} // namespace cryo::capture
