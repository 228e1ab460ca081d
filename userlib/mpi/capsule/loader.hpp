// SPDX-License-Identifier: Apache-2.0
//
// The mini-loader: does for the capsule's program what the kernel's exec does for a process. It
// maps the program and the dynamic linker it names into the arena and makes the stack they start
// on.
//
//     Start start;
//     if (!load_program("/path/to/guest", argument, environment, start, why)) ...
//     guest = cryo_capsule_start(start.entry, start.stack);
#pragma once

#include "mpi/capsule/capsule.hpp"

namespace cryo::capsule {

struct Start {
    void *entry;
    void *stack;
};

bool load_program(const char *path, const char *argument, char *const *environment, Start &start,
                  Refusal &why);

} // namespace cryo::capsule
