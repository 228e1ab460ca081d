// SPDX-License-Identifier: Apache-2.0
//
// Directories of /proc whose entries are numbers: threads, descriptors.
#pragma once

#include "sys/raw.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <sys/syscall.h>

namespace cryo::agent {

struct Dirent64 { // as getdents64 fills it
    uint64_t ino;
    int64_t off;
    uint16_t length;
    uint8_t type;
    char name[];
};

// Parses a decimal name; −1: it is not a number.
inline int number(const char *s)
{
    int n = 0;
    if (*s == 0)
        return -1;
    for (; *s != 0; s++) {
        if (*s < '0' || *s > '9')
            return -1;
        n = n * 10 + (*s - '0');
    }
    return n;
}

// Calls use(N) for each entry. A negative result ends the loop and is returned, as is an error.
// −EBADF: what was read is not used, because is_still_open() is false afterwards.
template <size_t N, class Use, class Look>
long each_number(long dir, char (&buffer)[N], const Use &use, const Look &is_still_open)
{
    for (;;) {
        const long n = sys::call(SYS_getdents64, dir, buffer, N);
        if (!is_still_open())
            return -EBADF;
        if (n <= 0)
            return n;
        for (long at = 0; at < n;) {
            const auto *entry = reinterpret_cast<const Dirent64 *>(buffer + at);
            at += entry->length;
            const int found = number(entry->name);
            if (const long said = found >= 0 ? use(found) : 0; said < 0)
                return said;
        }
    }
}

template <size_t N, class Use>
long each_number(long dir, char (&buffer)[N], const Use &use)
{
    return each_number(dir, buffer, use, [] { return true; });
}

} // namespace cryo::agent
