// SPDX-License-Identifier: Apache-2.0
//
// Files that are looked at before they are opened. Where other users may write, a name may lead to
// anything: a FIFO that blocks the process that opens it, a device that acts on being opened, a
// link to another file; and all of these may be exchanged after the look. So the look opens nothing
// (O_PATH), and what is opened afterwards is what was looked at, whatever the name leads to by
// then.
//
//     Result<Found> found = look_at("/tmp/state", Links::followed);
//     if (!found || !S_ISREG(found->status.st_mode)) ...            // nothing was opened
//     Result<Fd> file = open_found(*found, O_RDONLY | O_NONBLOCK);   // no lease is waited for
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <string>
#include <string_view>
#include <sys/stat.h>

namespace cryo {

struct Found {
    std::string path; // for messages
    Fd fd;            // opened with O_PATH
    struct stat status = {};
};

enum class Links {
    followed,
    not_at_end, // a link there is looked at itself, and cannot be opened
    nowhere,    // not on the way either; as not_at_end before Linux 5.6, and in some containers
};

// Errors are those of open(2), and name the path.
Result<Found> look_at(const std::string &path, Links links);

enum class Devices { refused, opened };

// The flags are those of open(2). A FIFO is not waited for. EINVAL: a device, if these are refused;
// O_PATH and O_DIRECTORY open none.
Result<Fd> open_found(const Found &found, int flags, Devices devices = Devices::refused);

// Opens the file of a descriptor once more, as an open file of its own. `what` is for messages.
Result<Fd> reopen(int fd, int flags, std::string_view what);

} // namespace cryo
