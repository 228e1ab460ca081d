// SPDX-License-Identifier: Apache-2.0
//
// Memory of another process by its open file /proc/PID/mem. False: errno tells why, or not all of
// it is there.
//
//     read_at(memory, RemoteAddress(thread.sp), &word, sizeof(word))
#pragma once

#include "base/fd.hpp"
#include "base/remote_address.hpp"

#include <cstddef>
#include <unistd.h>

namespace cryo::capture {

inline bool read_at(const Fd &memory, RemoteAddress from, void *to, size_t size)
{
    return pread(memory.get(), to, size, static_cast<off_t>(from.number())) ==
           static_cast<ssize_t>(size);
}

inline bool write_at(const Fd &memory, RemoteAddress to, const void *from, size_t size)
{
    return pwrite(memory.get(), from, size, static_cast<off_t>(to.number())) ==
           static_cast<ssize_t>(size);
}

} // namespace cryo::capture
