// SPDX-License-Identifier: Apache-2.0
//
// What a rank of a supervised job tells its node's daemon before it ends, so that an end which the
// program has chosen can be told from a fault (endings.hpp). On a connection of its own: any thread
// may end the process, wherever the others are.
//
//     expect_end(environ);             // this process is in the job from now on
//     tell_end(Ending::by_itself);     // returns when it may end, after a few seconds at most
//
// RULE: both may be called in a signal handler, and with another library's thread-local storage.
#pragma once

#include <cstdint>

namespace cryo::coord {

enum class Ending : uint8_t {
    well = 0,      // it has done its part: MPI_Finalize
    by_itself = 1, // the program wants it: MPI_Abort, or exit() without MPI_Finalize
    given_up = 2,  // the MPI library ends the job, because of an error that nobody handles
};

void expect_end(const char *const *environment);
// Nothing is to be told any more.
void forget_end();
// Only the first of a process counts, and only in the process that expects its end: what a child by
// fork() does is nothing to the job.
void tell_end(Ending how);

} // namespace cryo::coord
