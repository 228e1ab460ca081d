// SPDX-License-Identifier: Apache-2.0
//
// The user that the kernel names as the owner of a file whose true owner has no number in the
// asker's user namespace.
//
//     if (status.st_uid == sys::overflow_uid()) ... // nobody knows whose it is
//
// May be called in signal handlers.
#pragma once

#include "sys/raw.hpp"

#include <fcntl.h>
#include <sys/types.h>

namespace cryo::sys {

// Unless an administrator has chosen another one.
constexpr uid_t usual_overflow_uid = 65534;

// `file`: in tests another one.
inline uid_t overflow_uid(const char *file = "/proc/sys/kernel/overflowuid")
{
    const long fd = call(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
    if (failed(fd))
        return usual_overflow_uid;
    char text[8] = {}; // the kernel's numbers have up to five digits
    call(SYS_read, fd, text, sizeof(text) - 1);
    call(SYS_close, fd);
    uid_t user = 0;
    const char *end = text;
    for (; *end >= '0' && *end <= '9'; end++)
        user = user * 10 + static_cast<uid_t>(*end - '0');
    return end != text ? user : usual_overflow_uid;
}

} // namespace cryo::sys
