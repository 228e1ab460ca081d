// SPDX-License-Identifier: Apache-2.0
//
// Ends or stops programs that stay stopped until their image is committed and then get a signal, or
// none, without running in between. They resume by themselves if they receive nothing from the
// command for too long.
//
//     Result<void> stand = all_stand(members);   // right before the image gets its name
//     Result<void> ends = check_ends(members, SIGKILL, files.hold()); // soon
//     Ended ended = end_all(members, SIGKILL, files.hold());
//     if (!ended.all && ended.count == 0)
//         ... treat it as if there were no image
#pragma once

#include "base/result.hpp"
#include "capture/gather/everybody.hpp"
#include "resources/socket/connection_hold.hpp"

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
// Connections that are held are silenced right before the signal, and stay held for a restart once
// the members have ended; they must not go on with such connections.
Ended end_all(const Members &members, int signal, resources::ConnectionHold &hold);
// ENOTSUP: a connection is held, and the signal would not end each member that is described.
Result<void> check_ends(const Members &members, int signal, const resources::ConnectionHold &hold);

// `why`, or an error that names the process that has ended, if one has.
Error told_of_ended(const Members &members, const Error &why);

} // namespace cryo::capture
