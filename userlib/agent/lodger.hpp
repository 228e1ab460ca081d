// SPDX-License-Identifier: Apache-2.0
//
// A lodger lives in the program's process without being part of the program: a stock MPI library in
// its capsule. Its memory, descriptors and threads are in no image; in the restored copy it is
// gone, and is notified so that it can start again.
//
//     static const Lodger lodger = {.size = sizeof(lodger), .range = ..., ...};
//     cryo_agent_interface->set_lodger(&lodger);
//
// All functions may be called in a signal handler, in any thread of the program, with any
// thread-local storage. A process has one lodger, which never changes.
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
    // The lodger's address ranges, by number; false: there are no more.
    bool (*range)(uint32_t number, LodgerRange *range);
    bool (*owns_fd)(int fd);
    bool (*owns_thread)(int tid);
    // Every thread of the program is stopped. False: the program cannot be saved now.
    bool (*stopped)(LodgerRefusal *why);
    // After `stopped`: the program continues.
    void (*going_on)();
    // Called in the restored copy. `environment` is a descriptor with the NUL-terminated variables
    // of the restarting process; −1: not known. The caller closes it afterwards.
    void (*restarted)(int environment);
    // Called in a child that fork() has made, which has a copy of the lodger without its threads.
    void (*forked)();
};

} // namespace cryo::agent
