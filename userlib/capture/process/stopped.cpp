// SPDX-License-Identifier: Apache-2.0
#include "capture/process/stopped.hpp"

#include "base/clock.hpp"
#include "look/members.hpp"
#include "look/memory_file.hpp"
#include "look/proc.hpp"
#include "protocol/agent.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

constexpr uint64_t least_step_ns = 5'000; // each counts as so long at least
// Even if the limit has been reached, the threads are put back.
constexpr uint64_t time_to_put_back_ns = 5'000'000'000;
constexpr int stand_again_turns = 5'000; // of 200 µs: one still running then was continued

constexpr uint64_t bit(int signal)
{
    return uint64_t(1) << (signal - 1);
}

} // namespace

Result<void> Stopped::count_step(pid_t tid)
{
    if (left_ns_ <= least_step_ns)
        return Error(EBUSY, fmt::format("thread {} of a stopped process does not reach a point at "
                                        "which it can be saved, or gets signals all the time; try "
                                        "again, or give it more time with --stall=SECONDS",
                                        tid));
    left_ns_ -= least_step_ns;
    return {};
}

Result<int> Stopped::await_trap(pid_t tid)
{
    const uint64_t begun = now_ns();
    for (;;) {
        if (Result<void> in_time = count_step(tid); !in_time)
            return in_time.error();
        int status = 0;
        const pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
        if (got == tid && WIFSTOPPED(status)) {
            left_ns_ -= std::min(left_ns_, now_ns() - begun);
            return status;
        }
        if (got == tid || (got < 0 && errno != EINTR))
            return Error(ESRCH, fmt::format("thread {} ended during the checkpoint", tid));
        if (now_ns() - begun >= left_ns_)
            left_ns_ = 0;
        const timespec pause = {0, 200'000};
        nanosleep(&pause, nullptr);
    }
}

Error Stopped::refused(pid_t tid, int err)
{
    if (err == EPERM)
        return Error(ENOTSUP, fmt::format("process of thread {} is stopped (SIGSTOP, job control), "
                                          "and this system restricts ptrace, which is needed to "
                                          "save a stopped process: continue it with kill -CONT",
                                          tid));
    return Error::from_errno(fmt::format("holding thread {}", tid), err);
}

Stopped::~Stopped()
{
    for (const auto &[tid, thread] : threads_) {
        if (!thread.runs)
            ptrace(PTRACE_DETACH, tid, nullptr, static_cast<long>(thread.last));
    }
}

Result<Stopped> Stopped::hold(pid_t pid, int signal, uint64_t limit_ns)
{
    Stopped made(pid, signal, limit_ns);
    if (Result<void> held = made.hold_threads(); !held)
        return held.error();
    return made;
}

Result<void> Stopped::hold_threads()
{
    Result<std::vector<int>> all = Proc(pid_).numbers("task");
    if (!all)
        return Error(ESRCH, fmt::format("no process {}", pid_));
    for (const pid_t tid : *all) {
        if (const Result<Relation> now = relation_of(tid); now && now->of_kernel)
            continue;
        if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
            Result<std::string> stat = Proc(tid).read("stat");
            if (stat && stat->find(") Z") != std::string::npos)
                continue; // the first thread may have ended before the others
            return refused(tid, errno);
        }
        // The main thread would be back in the program while the callback thread's callbacks run.
        const Result<std::string> name = Proc(pid_).read(fmt::format("task/{}/comm", tid));
        if (name && *name == fmt::format("{}\n", agent::callback_thread_name))
            return Error(ENOTSUP,
                         fmt::format("process {} is stopped (SIGSTOP, job control) and has "
                                     "callbacks of THREAD context: continue it with kill -CONT",
                                     pid_));
        Thread &thread = threads_[tid];
        Result<int> trapped = await_trap(tid);
        if (!trapped)
            return trapped.error();
        // All threads stand by one signal, whether the parent has been told of the stop or not.
        if (*trapped >> 16 == PTRACE_EVENT_STOP)
            signal_of_stop_ = WSTOPSIG(*trapped);
        if (ptrace(PTRACE_GETSIGMASK, tid, sizeof(thread.mask), &thread.mask) != 0)
            return refused(tid, errno);
        if (Result<void> kept = keep_others_away(tid, thread); !kept)
            return kept;
    }
    return threads_.empty() ? Error(ESRCH, fmt::format("no process {}", pid_)) : Result<void>();
}

uint64_t Stopped::waiting(pid_t tid, bool shared) const
{
    Result<std::string> status = Proc(pid_).read(fmt::format("task/{}/status", tid));
    if (!status)
        return 0;
    std::string_view own = field(*status, "SigPnd");
    std::string_view all = field(*status, "ShdPnd");
    return take_number(own, 16) | (shared ? take_number(all, 16) : 0);
}

// Pending signals other than ours must not be delivered now, so they are blocked.
Result<void> Stopped::keep_others_away(pid_t tid, Thread &thread) const
{
    if ((waiting(tid, true) & ~thread.mask & ~bit(signal_) & ~bit(SIGSTOP)) == 0)
        return {};
    const uint64_t all_others = ~bit(signal_);
    if (ptrace(PTRACE_SETSIGMASK, tid, sizeof(all_others), &all_others) != 0)
        return refused(tid, errno);
    thread.masked = true;
    return {};
}

// Runs the thread into the agent's handler. Any other signal it stops for is sent to it again,
// except for a further SIGSTOP, which cannot be blocked and would come again and again: it gets
// that one at the end.
Result<void> Stopped::run(pid_t tid, Thread &thread)
{
    for (;;) {
        if (ptrace(PTRACE_CONT, tid, nullptr, nullptr) != 0)
            return refused(tid, errno);
        Result<int> trapped = await_trap(tid);
        if (!trapped)
            return trapped.error();
        const int signal = WSTOPSIG(*trapped);
        if (*trapped >> 16 != 0)
            continue; // a group stop
        if (signal == signal_)
            break;
        if (signal == SIGSTOP) {
            thread.last = SIGSTOP;
            continue;
        }
        syscall(SYS_tgkill, pid_, tid, signal); // it arrived just now
        if (Result<void> kept = keep_others_away(tid, thread); !kept)
            return kept;
    }
    // A child that stood in its agent, after its fork, had all signals blocked until now.
    if (!thread.masked && ptrace(PTRACE_GETSIGMASK, tid, sizeof(thread.mask), &thread.mask) != 0)
        return refused(tid, errno);
    thread.runs = true;
    if (ptrace(PTRACE_CONT, tid, nullptr, static_cast<long>(signal_)) != 0)
        return refused(tid, errno);
    return {};
}

Result<void> Stopped::lead()
{
    auto &[tid, thread] = *threads_.begin();
    return run(tid, thread);
}

Result<void> Stopped::follow()
{
    for (auto &[tid, thread] : threads_) {
        if (thread.runs || (waiting(tid, false) & bit(signal_)) == 0)
            continue;
        if (Result<void> runs = run(tid, thread); !runs)
            return runs;
    }
    return {};
}

Result<void> Stopped::mend_frame(pid_t tid, RemoteAddress frame) const
{
    const auto found = threads_.find(tid);
    if (found == threads_.end() || !found->second.masked)
        return {};
    Result<Fd> memory = Proc(pid_).open("mem", O_RDWR);
    if (!memory)
        return memory.error();
    const uint64_t mask = found->second.mask;
    if (!write_at(*memory, frame + offsetof(ucontext_t, uc_sigmask), &mask, sizeof(mask)))
        return Error::from_errno(fmt::format("mending the frame of thread {}", tid), errno);
    return {};
}

void Stopped::ring() const
{
    for (const auto &[tid, thread] : threads_) {
        if (thread.runs)
            syscall(SYS_tgkill, pid_, tid, signal_);
    }
}

// Handles a stop of a thread leaving the handler: it is continued unless our signal stopped it.
void Stopped::pass(pid_t tid, Thread &thread, int status) const
{
    const int signal =
        status >> 16 == 0 ? WSTOPSIG(status) : 0; // 0: a group stop, or the end of one
    thread.is_out = signal == signal_ || signal == SIGCONT;
    if (signal == SIGCONT || signal == SIGSTOP) // continued: the process must see why
        thread.last = signal;
    if (thread.is_out)
        return;
    // Any other signal is sent again and blocked until the thread has left the handler or callback;
    // otherwise it would be delivered before ours, again and again.
    if (signal != 0 && signal != SIGSTOP) {
        syscall(SYS_tgkill, pid_, tid, signal);
        static_cast<void>(keep_others_away(tid, thread));
        thread.kept_away = true;
    }
    ptrace(PTRACE_CONT, tid, nullptr, nullptr);
}

void Stopped::see_out()
{
    for (auto &[tid, thread] : threads_) {
        int status = 0;
        if (thread.runs && !thread.is_out && waitpid(tid, &status, __WALL | WNOHANG) == tid &&
            WIFSTOPPED(status))
            pass(tid, thread, status);
    }
}

// A process that was continued meanwhile runs on.
Result<void> Stopped::put_back()
{
    Result<void> done;
    left_ns_ = time_to_put_back_ns;
    for (auto &[tid, thread] : threads_) {
        Result<int> trapped = 0;
        while (thread.runs && !thread.is_out && trapped) {
            trapped = await_trap(tid);
            if (trapped)
                pass(tid, thread, *trapped);
            else
                done = trapped.error();
        }
        if (thread.kept_away && thread.last != SIGCONT)
            ptrace(PTRACE_SETSIGMASK, tid, sizeof(thread.mask), &thread.mask);
        ptrace(PTRACE_DETACH, tid, nullptr, static_cast<long>(thread.last));
    }
    // The threads run in the kernel for a moment before they are stopped again.
    const auto stands = [](const auto &entry) {
        const Result<Relation> now = relation_of(entry.first);
        return !now || now->stopped || now->ended;
    };
    for (int i = 0; i < stand_again_turns && !std::ranges::all_of(threads_, stands); i++) {
        const timespec pause = {0, 200'000};
        nanosleep(&pause, nullptr);
    }
    threads_.clear();
    return done;
}

} // namespace cryo::capture
