// SPDX-License-Identifier: Apache-2.0
//
// Ends or stops programs that stay stopped until their image is committed and then get a signal, or
// none, without running in between. They resume by themselves if they receive nothing from the
// command for too long.
//
//     Result<void> stand = all_stand(members);   // right before the image gets its name
//     Ended ended = end_all(members, SIGKILL);
//     if (!ended.all && ended.count == 0)
//         ... treat it as if there were no image
#pragma once

#include "base/result.hpp"
#include "capture/gather/everybody.hpp"

namespace cryo::capture {

// Lets all resume. Fails if one of them has resumed earlier.
Result<void> resume_all(const Members &members);
// Fails if one of the members has resumed.
Result<void> all_stand(const Members &members);

// The result, and how many members have got their signal.
struct Ended {
    Result<void> all;
    size_t count = 0;
};
Ended end_all(const Members &members, int signal);

// `why`, or an error that names the process that has ended, if one has.
Error told_of_ended(const Members &members, const Error &why);

} // namespace cryo::capture
