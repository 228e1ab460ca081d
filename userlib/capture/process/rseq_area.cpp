// SPDX-License-Identifier: Apache-2.0
#include "capture/process/rseq_area.hpp"

#include "capture/process/held_thread.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <sys/ptrace.h>

namespace cryo::capture {

Result<RegisteredRseq> registered_rseq(pid_t tid)
{
    const Result<HeldThread> held = HeldThread::hold(tid, "the address of the area is not known");
    if (!held)
        return held.error();
    __ptrace_rseq_configuration found = {};
    if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, sizeof(found), &found) != sizeof(found))
        return Error::from_errno(fmt::format("thread {}: asking for the address", tid), errno);
    return RegisteredRseq{RemoteAddress(found.rseq_abi_pointer), found.rseq_abi_size,
                          found.signature};
}

} // namespace cryo::capture
