// SPDX-License-Identifier: Apache-2.0
//
// Finds the capsule's program, which is installed beside this library.
//
//     const char *path = find_program(environment, why);
//     if (path == nullptr) ...
//
// The dynamic linker knows the library's path, but looks it up under a lock, so it is asked only
// once: when a capsule is opened in a restored copy, the program may be in the middle of dlopen.
#pragma once

#include "mpi/capsule/capsule.hpp"

namespace cryo::capsule {

// The returned name is valid until the next call.
const char *find_program(char *const *environment, Refusal &why);

} // namespace cryo::capsule
