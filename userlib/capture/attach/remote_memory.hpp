// SPDX-License-Identifier: Apache-2.0
//
// Memory of another process, as its tracer reads and writes it. False: not all of it is there, or
// may be accessed so.
#pragma once

#include "base/remote_address.hpp"

#include <cstddef>
#include <sys/types.h>
#include <sys/uio.h>

namespace cryo::capture {

inline bool read_memory(pid_t pid, RemoteAddress from, void *to, size_t size)
{
    const iovec ours = {to, size};
    const iovec theirs = {reinterpret_cast<void *>(from.number()), size};
    return process_vm_readv(pid, &ours, 1, &theirs, 1, 0) == static_cast<ssize_t>(size);
}

inline bool write_memory(pid_t pid, RemoteAddress to, const void *from, size_t size)
{
    const iovec ours = {const_cast<void *>(from), size};
    const iovec theirs = {reinterpret_cast<void *>(to.number()), size};
    return process_vm_writev(pid, &ours, 1, &theirs, 1, 0) == static_cast<ssize_t>(size);
}

} // namespace cryo::capture
