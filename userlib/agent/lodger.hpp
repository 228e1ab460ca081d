// SPDX-License-Identifier: Apache-2.0
//
// A lodger lives in the program's process and is no part of it: a stock MPI library in its capsule.
// No image has its memory, its descriptors and its threads; in the restored copy it is gone, and is
// told so that it can begin anew.
//
//     static const Lodger lodger = {.size = sizeof(lodger), .range = ..., ...};
//     cryo_agent_interface->set_lodger(&lodger);
//
// All functions may be called in a signal handler, in any thread of the program, with any
// thread-local storage; there is one lodger in a process, and it never changes.
#pragma once

#include <cstdint>

namespace cryo::agent {

struct LodgerRange {
    uint64_t start, end;
};

struct LodgerRefusal {
    char what[256];
    char way_out[256];
};

struct Lodger {
    uint32_t size; // of this table: functions are only ever appended
    // The ranges of addresses that are its own, one after the other; false: there are no more.
    bool (*range)(uint32_t number, LodgerRange *range);
    bool (*owns_fd)(int fd);
    bool (*owns_thread)(int tid);
    // Every thread of the program stands still. False: it cannot be saved now.
    bool (*stopped)(LodgerRefusal *why);
    // After that: the program goes on.
    void (*going_on)();
    // The program is the restored copy. `environment` holds the variables of whoever restarted it,
    // NUL-ended each; −1: not known. It is closed afterwards.
    void (*restarted)(int environment);
};

} // namespace cryo::agent
