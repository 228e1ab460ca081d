// SPDX-License-Identifier: Apache-2.0
//
// Gives the file of a bound UNIX socket the owner, group and mode that it had when it was saved:
// bind(2) makes it the restarting user's, under that user's umask. Changes no other file that has
// come to its place.
//
//     bind(fd, name.get(), name.size);
//     Result<std::string> lost = give_rights(fd, name.path(), {mode, uid, gid});
//     if (lost && !lost->empty())
//         notice(*lost);
#pragma once

#include "base/result.hpp"

#include <string>
#include <sys/types.h>

namespace cryo::resources {

struct FileRights {
    mode_t mode = 0;
    uid_t uid = ~0U; // this number: any
    gid_t gid = ~0U;
};

// Returned is what this user may not give, for the user: empty, or a sentence.
Result<std::string> give_rights(int socket, const char *path, const FileRights &rights);

} // namespace cryo::resources
