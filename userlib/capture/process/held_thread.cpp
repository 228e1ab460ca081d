// SPDX-License-Identifier: Apache-2.0
#include "capture/process/held_thread.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <utility>

namespace cryo::capture {

HeldThread::HeldThread(HeldThread &&other) noexcept
    : tid_(std::exchange(other.tid_, 0)), signal_(other.signal_), ours_(other.ours_)
{}

HeldThread::~HeldThread()
{
    if (tid_ != 0)
        ptrace(ours_ ? PTRACE_CONT : PTRACE_DETACH, tid_, nullptr,
               reinterpret_cast<void *>(signal_));
}

Result<HeldThread> HeldThread::hold(pid_t tid, std::string_view not_possible)
{
    const bool fresh = ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) == 0;
    const int why = errno;
    if (ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0) {
        errno = fresh ? errno : why;
        if (errno != EPERM)
            return Error::from_errno(fmt::format("thread {}", tid), errno);
        return Error(EPERM, fmt::format("thread {}: {}: this system restricts ptrace "
                                        "(kernel.yama.ptrace_scope, or a container's filter)",
                                        tid, not_possible));
    }
    int status = 0;
    pid_t got;
    do {
        got = waitpid(tid, &status, __WALL);
    } while (got < 0 && errno == EINTR);
    if (got != tid || !WIFSTOPPED(status))
        return Error(ESRCH, fmt::format("thread {} ended during the checkpoint", tid));
    const bool by_us = status >> 16 == PTRACE_EVENT_STOP;
    return HeldThread(tid, by_us ? 0 : WSTOPSIG(status), !fresh);
}

} // namespace cryo::capture
