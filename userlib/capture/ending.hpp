// SPDX-License-Identifier: Apache-2.0
//
// Programs that stand still until their image is committed, and then get a signal: nothing of them
// may have run in between. They go on by themselves when they are told nothing for too long.
//
//     Result<void> stand = all_stand(members);   // right before the image gets its name
//     Ended ended = end_all(members, SIGKILL);
//     if (!ended.all && ended.count == 0)
//         ... as if there had been no image
#pragma once

#include "base/result.hpp"
#include "capture/everybody.hpp"

namespace cryo::capture {

// An error: one of them has gone on.
Result<void> all_stand(const Members &members);

// How it went, and how many have got their signal.
struct Ended {
    Result<void> all;
    size_t count = 0;
};
Ended end_all(const Members &members, int signal);

// An error that says, where that is so, that a process has ended.
Error told_of_ended(const Members &members, const Error &why);

} // namespace cryo::capture
