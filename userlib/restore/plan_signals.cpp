// SPDX-License-Identifier: Apache-2.0
// Signal actions, pending signals and timers. Signals are queued while the restorer has everything
// blocked; they are delivered when the threads return through their signal frames.
#include "restore/plan_parts.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

namespace cryo::restore {

using image::TimerKind;

namespace {

constexpr int last_signal = 64;

void put_words(const image::PendingSignal &record, siginfo_t &info)
{
    constexpr size_t behind_code = 16;
    const uint64_t words[4] = {record.word0, record.word1, record.word2, record.word3};
    static_assert(behind_code + sizeof(words) <= sizeof(info));
    char *behind = reinterpret_cast<char *>(&info) + behind_code;
    memcpy(behind, words, sizeof(words));
    memcpy(behind - sizeof(record.padding), &record.padding, sizeof(record.padding));
}

siginfo_t siginfo_of(const image::PendingSignal &record)
{
    siginfo_t info = {};
    info.si_signo = static_cast<int>(record.signal);
    info.si_code = record.code;
    info.si_errno = record.error;
    if (record.whole) {
        put_words(record, info);
        return info;
    }
    const bool kernel = info.si_code > 0 && info.si_code < SI_KERNEL;
    if (info.si_code == SI_TIMER) {
        info.si_timerid = record.timer;
        info.si_overrun = record.overrun;
        info.si_ptr = reinterpret_cast<void *>(record.value);
    } else if (info.si_code < 0 && info.si_code != SI_SIGIO) {
        info.si_pid = static_cast<int>(record.pid);
        info.si_uid = record.uid;
        info.si_ptr = reinterpret_cast<void *>(record.value);
    } else if (!kernel && info.si_code != SI_SIGIO) {
        info.si_pid = static_cast<int>(record.pid);
        info.si_uid = record.uid;
    } else if (info.si_signo == SIGCHLD) {
        info.si_pid = static_cast<int>(record.pid);
        info.si_uid = record.uid;
        info.si_status = record.status;
        info.si_utime = record.user_time;
        info.si_stime = record.system_time;
    } else if (kernel &&
               (info.si_signo == SIGILL || info.si_signo == SIGFPE || info.si_signo == SIGSEGV ||
                info.si_signo == SIGBUS || info.si_signo == SIGTRAP)) {
        info.si_addr = reinterpret_cast<void *>(record.address);
    } else if (info.si_signo == SIGSYS) {
        info.si_call_addr = reinterpret_cast<void *>(record.call_address);
        info.si_syscall = record.syscall;
        info.si_arch = record.arch;
    } else {
        info.si_band = record.band;
        info.si_fd = record.fd;
    }
    return info;
}

// SIGSTOP needs nobody to let it through.
bool lets_stop_through(const Planning &p)
{
    return p.saved.process.stopped && !p.options.rehearse && stop_signal_of(p.saved) != SIGSTOP;
}

// A thread may only send itself a signal that claims to come from the kernel or from
// kill(2). So each queues its own; the process's are queued by the main thread.
void queue_signal(Planning &p, const image::PendingSignal &record, uint16_t pid, uint16_t tid)
{
    Program &program = p.plan.program;
    // One more of those that stop it would do so too early. What ends the stop takes it away.
    if (lets_stop_through(p) && static_cast<int>(record.signal) == stop_signal_of(p.saved))
        return;
    const siginfo_t info = siginfo_of(record);
    const Operand data = program.data(&info, sizeof(info));
    // The library's own signals (thread cancellation, setuid of all threads) are obeyed only if
    // they come from this process.
    const bool internal = record.signal == 32 || record.signal == 33;
    if (internal && record.code == SI_TKILL && record.pid == p.saved.process.pid)
        program.add(Do::store, "placing the process id in a signal",
                    {{data.kind, data.number + offsetof(siginfo_t, si_pid)},
                     result(pid),
                     value(sizeof(uint32_t))});
    const std::string what = fmt::format(
        "queueing signal {} (the user's limit of pending signals may be reached)", record.signal);
    if (record.tid == 0)
        program.call(what, SYS_rt_sigqueueinfo, {result(pid), value(record.signal), data});
    else
        program.call(what, SYS_rt_tgsigqueueinfo,
                     {result(pid), result(tid), value(record.signal), data});
}

// A timer may outlive the thread that it is for: then it runs on, and its signals go nowhere.
bool is_for_nobody(const Planning &p, const image::Timer &timer)
{
    return (timer.notify & SIGEV_THREAD_ID) != 0 &&
           std::none_of(
               p.saved.threads().begin(), p.saved.threads().end(),
               [&](const image::Thread &thread) { return thread.tid == timer.notify_tid; });
}

bool is_target_of_timer(const Planning &p, uint32_t tid)
{
    return std::any_of(p.saved.of<image::Timer>().begin(), p.saved.of<image::Timer>().end(),
                       [&](const image::Timer &t) {
                           return (t.notify & SIGEV_THREAD_ID) != 0 && t.notify_tid == tid;
                       });
}

void plan_interval_timer(Planning &p, const image::Timer &timer)
{
    Program &program = p.plan.program;
    const auto split = [](int64_t ns) {
        // Less than a microsecond would mean: off.
        const int64_t us = ns == 0 ? 0 : std::max<int64_t>(ns / 1000, 1);
        return timeval{us / 1'000'000, us % 1'000'000};
    };
    const itimerval value_of = {split(timer.interval), split(timer.remaining)};
    program.call("setting an interval timer", SYS_setitimer,
                 {value(static_cast<uint32_t>(timer.kind)),
                  program.data(&value_of, sizeof(value_of)), value(0)});
}

Result<void> plan_posix_timer(Planning &p, const image::Timer &timer)
{
    Program &program = p.plan.program;
    const std::string what = fmt::format("POSIX timer {}", timer.id);
    const auto clock = static_cast<int>(timer.clock);
    const auto named = clock < 0 ? static_cast<uint32_t>(~(clock >> 3)) : 0;
    if (named != 0 && !p.options.keeps(named))
        return Error(ENOTSUP, what + " measures the CPU time of a process or thread by its id; it "
                                     "cannot be restored with --no-restore-pid");
    sigevent event = {};
    const bool to_nobody = is_for_nobody(p, timer);
    event.sigev_notify = to_nobody ? SIGEV_NONE : static_cast<int>(timer.notify);
    event.sigev_signo = static_cast<int>(timer.signal);
    event.sigev_value.sival_ptr = reinterpret_cast<void *>(timer.value);
    const Operand data = program.data(&event, sizeof(event));
    if ((timer.notify & SIGEV_THREAD_ID) != 0 && !to_nobody) {
        const auto tid = p.tid_slots.find(timer.notify_tid);
        if (tid == p.tid_slots.end())
            return Error(EINVAL, what + fmt::format(" is for thread {}, which the image does not "
                                                    "have",
                                                    timer.notify_tid));
        program.add(Do::store, what + ": placing its thread",
                    {{data.kind, data.number + offsetof(sigevent, _sigev_un._tid)},
                     result(tid->second),
                     value(sizeof(uint32_t))});
    }
    program.add(Do::timer, what + ": creating it with its id",
                {value(clock), data, value(timer.id)});
    const auto split = [](int64_t ns) { return timespec{ns / 1'000'000'000, ns % 1'000'000'000}; };
    const itimerspec time = {split(timer.interval), split(timer.remaining)};
    program.call(what + ": setting it", SYS_timer_settime,
                 {value(timer.id), value(0), program.data(&time, sizeof(time)), value(0)});
    return {};
}

} // namespace

void plan_actions(Planning &p)
{
    Program &program = p.plan.program;
    agent::SignalAction actions[last_signal + 1] = {}; // default, where nothing is recorded
    for (const image::Sigaction &action : p.saved.of<image::Sigaction>()) {
        if (action.signal <= last_signal)
            actions[action.signal] = {action.handler, action.flags, action.restorer, action.mask};
    }
    for (int signal = 1; signal <= last_signal; signal++) {
        if (signal == SIGKILL || signal == SIGSTOP)
            continue;
        program.call(fmt::format("setting the action of signal {}", signal), SYS_rt_sigaction,
                     {value(signal), program.data(&actions[signal], sizeof(actions[signal])),
                      value(0), value(8)});
    }
}

void plan_thread_signals(Planning &p, const image::Thread &thread)
{
    Program &program = p.plan.program;
    const auto own = [&](const image::PendingSignal &s) { return s.tid == thread.tid; };
    const bool any = std::any_of(p.saved.of<image::PendingSignal>().begin(),
                                 p.saved.of<image::PendingSignal>().end(), own);
    if (!any && !is_target_of_timer(p, thread.tid))
        return;
    const uint16_t tid = program.slot();
    program.call("gettid", SYS_gettid, {}, tid);
    p.tid_slots[thread.tid] = tid;
    if (!any)
        return;
    const uint16_t pid = program.slot();
    program.call("getpid", SYS_getpid, {}, pid);
    for (const image::PendingSignal &record : p.saved.of<image::PendingSignal>()) {
        if (own(record))
            queue_signal(p, record, pid, tid);
    }
}

Result<void> plan_process_signals(Planning &p)
{
    Program &program = p.plan.program;
    uint16_t pid = 0;
    for (const image::PendingSignal &record : p.saved.of<image::PendingSignal>()) {
        if (record.signal < 1 || record.signal > last_signal)
            return Error(EINVAL, "a pending signal with an impossible number");
        if (record.tid != 0)
            continue;
        if (pid == 0) {
            pid = program.slot();
            program.call("getpid", SYS_getpid, {}, pid);
        }
        queue_signal(p, record, pid, pid);
    }
    return {};
}

// A handler cannot have been there when the signal stopped the process, and must not run now.
int stop_signal_of(const Saved &saved)
{
    const uint32_t signal = saved.process.stop_signal;
    const bool of_terminal = signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
    const bool stops = std::none_of(
        saved.of<image::Sigaction>().begin(), saved.of<image::Sigaction>().end(),
        [&](const image::Sigaction &one) { return one.signal == signal && one.handler != 0; });
    return of_terminal && stops ? static_cast<int>(signal) : SIGSTOP;
}

// In the main thread, and before its filters of system calls.
void plan_stop(Planning &p)
{
    if (!lets_stop_through(p))
        return;
    const uint64_t set = uint64_t(1) << (stop_signal_of(p.saved) - 1);
    p.plan.program.call(
        "letting the signal through that stops it", SYS_rt_sigprocmask,
        {value(SIG_UNBLOCK), p.plan.program.data(&set, sizeof(set)), value(0), value(sizeof(set))});
}

Result<void> plan_timers(Planning &p)
{
    for (const image::Timer &timer : p.saved.of<image::Timer>()) {
        if (timer.kind == TimerKind::timerfd)
            continue; // belongs to its descriptor
        if (timer.kind != TimerKind::posix)
            plan_interval_timer(p, timer);
        else if (Result<void> done = plan_posix_timer(p, timer); !done)
            return done;
    }
    return {};
}

} // namespace cryo::restore
