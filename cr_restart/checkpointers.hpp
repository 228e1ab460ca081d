// SPDX-License-Identifier: Apache-2.0
//
// The end of a pid namespace's first process ends all others in it. A cr_checkpoint that has ended
// the program by a signal (--kill, --term) is about to return, and its caller wants to know how.
//
//     await_checkpointers(); // the program has ended, and we are process 1
//     return mimic(status);
#pragma once

// Returns when all that were in this pid namespace have ended, or after local_delivery_limit.
void await_checkpointers();
