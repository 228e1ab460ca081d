// SPDX-License-Identifier: Apache-2.0
#include "capture/process/held_thread.hpp"

#include "base/clock.hpp"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <fmt/format.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <utility>

namespace cryo::capture {

namespace {

// For all threads that this command holds, one after the other: they wait in the agent's handler,
// and stop at once. Those of a hostile program may wait where nothing stops them (vfork).
constexpr uint64_t limit_ns = 5'000'000'000;
// Not counted: on a busy machine each of a thousand threads may take some milliseconds.
constexpr uint64_t usual_ns = 20'000'000;
constexpr uint64_t at_once_ns = 1'000'000; // until then each look follows the one before
std::atomic<uint64_t> waited_ns = 0;

// What waitpid(2) returns; 0: the thread has not stopped.
pid_t await_stop(pid_t tid, int &status)
{
    const uint64_t begun = now_ns();
    const uint64_t before = waited_ns;
    pid_t got = 0;
    for (;;) {
        got = waitpid(tid, &status, __WALL | WNOHANG);
        const uint64_t waited = now_ns() - begun;
        if ((got != 0 && (got > 0 || errno != EINTR)) || before + waited > limit_ns) {
            waited_ns += waited > usual_ns ? waited : 0;
            return got;
        }
        sched_yield();
        if (waited > at_once_ns) {
            constexpr timespec pause = {0, 200'000};
            nanosleep(&pause, nullptr);
        }
    }
}

} // namespace

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
    const pid_t got = await_stop(tid, status);
    if (got == 0)
        return Error(EBUSY,
                     fmt::format("thread {}: {}: it does not stop, as it waits in the kernel "
                                 "(for a child made by vfork, a disk, a file server)",
                                 tid, not_possible));
    if (got != tid || !WIFSTOPPED(status))
        return Error(ESRCH, fmt::format("thread {} ended during the checkpoint", tid));
    const bool by_us = status >> 16 == PTRACE_EVENT_STOP;
    return HeldThread(tid, by_us ? 0 : WSTOPSIG(status), !fresh);
}

} // namespace cryo::capture
