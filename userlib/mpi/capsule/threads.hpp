// SPDX-License-Identifier: Apache-2.0
//
// Which thread of the program runs with which of the capsule's thread-local storages. The thread
// that opens the capsule uses the one the capsule began with; every further one borrows that of a
// parked thread, and gives it back when it ends. One is always spare, because only a thread that
// has entered can make the next.
//
//     threads::begin(guest, fs);   // the capsule is loaded; this thread has entered
//     threads::end();
#pragma once

#include "mpi/capsule/boundary.h"

namespace cryo::capsule::threads {

void begin(const cryo_guest *guest, void *fs);
void end();
void forget(); // in a restored copy, of which no thread is inside

} // namespace cryo::capsule::threads
