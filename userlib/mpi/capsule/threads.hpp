// SPDX-License-Identifier: Apache-2.0
//
// Assigns the capsule's thread-local storages to threads of the program. The thread that opens the
// capsule uses the storage the capsule started with; every further thread borrows that of a parked
// thread and returns it when it ends. One is always kept spare, because only a thread that has
// entered can create the next.
//
//     threads::begin(guest, fs);   // the capsule is loaded; this thread has entered
//     threads::end();
#pragma once

#include "mpi/capsule/boundary.h"

namespace cryo::capsule::threads {

void begin(const cryo_guest *guest, void *fs);
void end();
void forget(); // in a restored copy, where no thread is inside

} // namespace cryo::capsule::threads
