// SPDX-License-Identifier: Apache-2.0
//
// Whether a thread that does not come is one that never will, because the program itself has it
// block the checkpoint signal. Only for a checkpoint's leader.
//
//     Suspect suspect;
//     ... again and again, while thread 413 has not come:
//     if (is_deaf(suspect, 413))
//         ... it has blocked the signal for deaf_limit_ns, and could have run ...
#pragma once

#include <cstdint>

namespace cryo::agent {

struct ThreadStatus {
    char state = 0;       // the letter of /proc; 0: the thread is gone
    uint64_t blocked = 0; // the mask of signals that it blocks
};

ThreadStatus status_of(int tid);

struct Suspect {
    int tid = 0;
    long since = 0;     // on the monotonic clock: it has looked deaf from then on
    uint64_t ran = 0;   // how long it had run in user mode then, in ticks
    bool slept = false; // it was asleep at a look
};

// A thread is deaf if it has blocked the signal at each look for the limit, and either slept where
// signals would wake it, or ran code of the program. A thread that is stopped, in the kernel or
// without a processor is not.
bool is_deaf(Suspect &suspect, int tid);

} // namespace cryo::agent
