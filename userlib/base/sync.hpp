// SPDX-License-Identifier: Apache-2.0
//
// fsync(2): 0 or an errno. A signal must not make what was written count as lost.
//
//     if (const int err = sync_directory(fd)) return Error::from_errno(path, err);
#pragma once

#include <cerrno>
#include <unistd.h>

namespace cryo {

inline int sync_file(int fd)
{
    while (fsync(fd) != 0) {
        if (errno != EINTR)
            return errno;
    }
    return 0;
}

// Some file systems (OrangeFS, shared folders of virtual machines) cannot sync a directory: nothing
// more can be asked of them.
inline int sync_directory(int fd)
{
    const int err = sync_file(fd);
    return err == EINVAL || err == ENOTSUP || err == EROFS ? 0 : err;
}

} // namespace cryo
