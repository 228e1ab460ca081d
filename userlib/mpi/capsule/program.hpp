// SPDX-License-Identifier: Apache-2.0
//
// The capsule's program lies beside this library.
//
//     const char *path = find_program(environment, why);
//     if (path == nullptr) ...
//
// Where that is, the dynamic linker knows, under a lock. It is asked the first time only: when a
// capsule is opened in a restored copy, the program may stand in the middle of dlopen.
#pragma once

#include "mpi/capsule/capsule.hpp"

namespace cryo::capsule {

// The name is good until the next call.
const char *find_program(char *const *environment, Refusal &why);

} // namespace cryo::capsule
