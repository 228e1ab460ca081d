// SPDX-License-Identifier: Apache-2.0
// Copies pages into a file of the checkpointer's while the program is stopped. The kernel does the
// copying: no right to inspect the process from outside is needed, and nothing is mapped.
#include "agent/agent.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <sys/resource.h>
#include <sys/uio.h>

namespace cryo::agent {

namespace {

// Static: the handler's stack may be small. Only the leader uses them.
StagedRun runs[staged_at_once];
iovec parts[staged_at_once];

// The program's file size limit applies to this file, too: SIGXFSZ would end the program.
bool may_write(uint64_t end)
{
    rlimit limit = {};
    return !sys::failed(sys::call(SYS_prlimit64, 0, RLIMIT_FSIZE, nullptr, &limit)) &&
           (limit.rlim_cur == RLIM_INFINITY || end <= limit.rlim_cur);
}

// Copies all of it or fails: unreadable memory cuts the write short.
long copy_runs(int file, uint64_t offset, size_t count, uint64_t &copied)
{
    uint64_t size = 0;
    for (size_t i = 0; i < count; i++) {
        parts[i] = {reinterpret_cast<void *>(runs[i].start.number()), runs[i].end - runs[i].start};
        size += parts[i].iov_len;
    }
    long n;
    if (!may_write(offset + size))
        return -EFBIG;
    do {
        n = sys::call(SYS_pwritev, file, parts, count, offset, 0);
    } while (n == -EINTR);
    if (sys::failed(n))
        return n;
    copied += size;
    return static_cast<uint64_t>(n) == size ? 0 : -EFAULT;
}

} // namespace

long stage_pages(int connection, const StageRequest &request, int file, uint64_t &copied)
{
    long result = file >= 0 ? 0 : -EBADF;
    copied = 0;
    // Receive all packets even after an error: the next one would be read as a request.
    for (uint64_t left = request.count; left > 0;) {
        const long n = receive_packet(connection, runs, sizeof(runs));
        const size_t count = n > 0 ? static_cast<size_t>(n) / sizeof(runs[0]) : 0;
        if (count == 0 || count > left)
            return -EPROTO;
        left -= count;
        if (!sys::failed(result))
            result = copy_runs(file, request.offset + copied, count, copied);
    }
    return result;
}

} // namespace cryo::agent
