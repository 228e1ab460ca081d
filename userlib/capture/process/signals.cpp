// SPDX-License-Identifier: Apache-2.0
#include "capture/process/signals.hpp"

#include "capture/process/signal_queue.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <time.h>

namespace cryo::capture {

using image::TimerKind;

namespace {

void describe_actions(Description &d, const Actions &actions)
{
    for (uint32_t i = 0; i < agent::max_signals; i++) {
        const agent::SignalAction &from = actions[i];
        // The kernel keeps flags and mask even if the action is the default one.
        if (from.handler == 0 && from.flags == 0 && from.mask == 0)
            continue;
        image::Sigaction action;
        action.signal = i + 1;
        action.handler = from.handler;
        action.flags = from.flags;
        action.restorer = from.restorer;
        action.mask = from.mask;
        d.actions.push_back(action);
    }
}

// A CPU clock's number contains a pid or tid, 0 for the creator's own; glibc also turns
// CLOCK_PROCESS_CPUTIME_ID and CLOCK_THREAD_CPUTIME_ID into such numbers.
bool is_own_cpu_clock(const Description &d, int clock)
{
    constexpr int of_thread = 4;
    constexpr int kind_mask = 3; // 3: a descriptor's clock
    const auto id = static_cast<uint32_t>(~(clock >> 3));
    if ((clock & kind_mask) == 3)
        return false;
    if ((clock & of_thread) == 0)
        return id == 0 || id == d.process.pid;
    if (id == 0) // the kernel does not say which thread
        return d.threads.size() == 1;
    return std::any_of(d.threads.begin(), d.threads.end(),
                       [&](const image::Thread &t) { return t.tid == id; });
}

// "ID: 3\nsignal: 39/0000000000000065\nnotify: signal/tid.412\nClockID: 1\n" for each timer of
// timer_create(2).
Result<void> list_posix_timers(Description &d, std::vector<image::Timer> &timers)
{
    Result<std::string> text = d.proc.read("timers");
    if (!text) {
        d.problems.add("POSIX timers (timer_create), if there are any: " + text.error().text(),
                       "use a kernel with CONFIG_CHECKPOINT_RESTORE");
        return {};
    }
    std::string_view rest = *text;
    while (!rest.empty()) {
        image::Timer timer;
        timer.kind = TimerKind::posix;
        const auto value_of = [&](std::string_view key) {
            std::string_view line = take_line(rest);
            if (line.substr(0, key.size()) != key)
                return std::string_view();
            line.remove_prefix(key.size());
            return line;
        };
        std::string_view id = value_of("ID: ");
        std::string_view signal = value_of("signal: ");
        std::string_view notify = value_of("notify: ");
        const std::string clock(value_of("ClockID: "));
        if (id.empty() || signal.empty() || notify.empty() || clock.empty())
            return Error(EPROTO, d.proc.path("timers") + ": a line that is not understood");
        timer.id = static_cast<int32_t>(take_number(id));
        timer.signal = static_cast<uint32_t>(take_number(signal));
        signal.remove_prefix(1);
        timer.value = take_number(signal, 16);
        timer.notify = notify.substr(0, 4) == "none"     ? SIGEV_NONE
                       : notify.substr(0, 6) == "thread" ? SIGEV_THREAD
                                                         : SIGEV_SIGNAL;
        if (const size_t tid = notify.find("/tid."); tid != std::string_view::npos) {
            notify.remove_prefix(tid + 5);
            timer.notify |= SIGEV_THREAD_ID;
            timer.notify_tid = static_cast<uint32_t>(take_number(notify));
        }
        const int number = atoi(clock.c_str());
        timer.clock = static_cast<uint32_t>(number);
        const bool unnamed = number == CLOCK_THREAD_CPUTIME_ID && d.threads.size() > 1;
        if (unnamed || (number < 0 && !is_own_cpu_clock(d, number)))
            d.problems.add(fmt::format("POSIX timer {} on the clock {}, which belongs to a thread "
                                       "that the kernel does not name, or to something outside "
                                       "the process",
                                       timer.id, number),
                           "delete it before the checkpoint");
        timers.push_back(timer);
    }
    std::sort(timers.begin(), timers.end(),
              [](const auto &a, const auto &b) { return a.id < b.id; });
    return {};
}

void take_interval_timers(const agent::ProcessFacts &facts, std::vector<image::Timer> &timers)
{
    for (int which = 0; which < 3; which++) {
        const int64_t *t = facts.itimer[which];
        image::Timer &timer = timers[static_cast<size_t>(which)];
        timer.kind = static_cast<TimerKind>(which);
        timer.signal = which == 0 ? SIGALRM : which == 1 ? SIGVTALRM : SIGPROF;
        timer.interval = (t[0] * 1'000'000 + t[1]) * 1000;
        timer.remaining = (t[2] * 1'000'000 + t[3]) * 1000;
    }
}

Result<void> read_posix_timers(AgentSession &session, std::vector<image::Timer> &timers)
{
    for (image::Timer &timer : timers) {
        if (timer.kind != TimerKind::posix)
            continue;
        Result<agent::TimerFacts> facts = session.facts().timer(timer.id);
        if (!facts)
            return facts.error().within(fmt::format("POSIX timer {}", timer.id));
        timer.interval = facts->interval;
        timer.remaining = facts->remaining;
    }
    return {};
}

Result<void> read_timers(AgentSession &session, std::vector<image::Timer> &timers)
{
    Result<agent::ProcessFacts> facts = session.facts().process();
    if (!facts)
        return facts.error();
    take_interval_timers(*facts, timers);
    return read_posix_timers(session, timers);
}

// Reads the signals of one queue: the queued ones, then those of which the kernel has only the bit,
// because the queue was full when they arrived.
Result<void> read_queue(Description &d, uint32_t tid, uint64_t bits, Queue queue, int reserved)
{
    const auto bit = [](int signal) { return uint64_t(1) << (signal - 1); };
    bits &= ~bit(reserved);
    if (bits == 0)
        return {};
    const bool shared = queue == Queue::process;
    Result<std::vector<siginfo_t>> queued = peek_signals(static_cast<pid_t>(tid), queue);
    if (!queued)
        return queued.error();
    for (const siginfo_t &info : *queued) {
        if (info.si_signo == reserved)
            continue;
        bits &= ~bit(info.si_signo);
        d.pending.push_back(record_of(info, shared ? 0 : tid));
    }
    for (int signal = 1; signal <= agent::max_signals; signal++) {
        if ((bits & bit(signal)) == 0)
            continue;
        siginfo_t info = {};
        info.si_signo = signal; // the kernel delivers it so: SI_USER, without a sender
        d.pending.push_back(record_of(info, shared ? 0 : tid));
    }
    return {};
}

// `again`: the threads' status from when they were described is too old.
Result<void> read_pending(Description &d, int reserved, bool again)
{
    d.pending.clear();
    for (const image::Thread &thread : d.threads) {
        Result<std::string> status = again ? d.proc.read(fmt::format("task/{}/status", thread.tid))
                                     : thread.tid == d.process.pid ? d.status
                                                                   : d.thread_status[thread.tid];
        if (!status)
            return status.error();
        std::string_view own = field(*status, "SigPnd");
        std::string_view shared = field(*status, "ShdPnd");
        Result<void> done =
            read_queue(d, thread.tid, take_number(own, 16), Queue::thread, reserved);
        if (done && &thread == d.threads.data())
            done = read_queue(d, thread.tid, take_number(shared, 16), Queue::process, reserved);
        if (!done)
            return done;
    }
    return {};
}

bool has_pending(const Description &d, const image::Timer &timer)
{
    return std::any_of(d.pending.begin(), d.pending.end(), [&](const image::PendingSignal &p) {
        return p.signal == timer.signal &&
               (timer.kind != TimerKind::posix || (p.code == SI_TIMER && p.timer == timer.id));
    });
}

// Clocks continue while the program is stopped. A timer that expires between reading its queue and
// reading its remaining time, in either order, would be lost or expire twice.
bool went_off_unseen(const Description &d, const image::Timer &before, const image::Timer &after)
{
    const bool silent = (before.notify & ~static_cast<uint32_t>(SIGEV_THREAD_ID)) == SIGEV_NONE &&
                        before.kind == TimerKind::posix;
    const bool went_off =
        before.remaining != 0 && (after.remaining == 0 || after.remaining > before.remaining);
    return went_off && !silent && !has_pending(d, after);
}

// A stopped program takes no signals, so a timer expires once at most and then waits for its signal
// to be taken; only timers on CPU clocks advance, by the little time that the stop itself uses. So
// this terminates. If no timer runs, none can expire; and if there are none of timer_create(2)
// either, it was known before the threads were described whether one runs. `facts` were queried in
// the stop.
Result<void> read_consistently(Description &d, AgentSession &session,
                               const agent::ProcessFacts &facts)
{
    std::vector<image::Timer> timers(3);
    take_interval_timers(facts, timers);
    if (Result<void> done = list_posix_timers(d, timers); !done)
        return done;
    if (Result<void> done = read_posix_timers(session, timers); !done)
        return done;
    const auto runs = [](const auto &timer) { return timer.remaining != 0; };
    const bool any = timers.size() > 3 || std::ranges::any_of(timers, runs);
    for (size_t turn = 0; turn <= timers.size() + 10; turn++) {
        if (Result<void> done = read_pending(d, facts.signal, any); !done)
            return done;
        if (std::ranges::none_of(timers, runs))
            break;
        std::vector<image::Timer> now = timers;
        if (Result<void> done = read_timers(session, now); !done)
            return done;
        bool missed = false;
        for (size_t i = 0; i < now.size(); i++)
            missed |= went_off_unseen(d, timers[i], now[i]);
        timers = std::move(now);
        if (!missed)
            break;
    }
    for (image::Timer &timer : timers) {
        // An interval timer waits for its signal to be taken, and is not running meanwhile.
        if (timer.remaining == 0 && timer.interval != 0 && has_pending(d, timer))
            timer.remaining = timer.interval;
        if (timer.kind == TimerKind::posix || timer.remaining != 0)
            d.timers.push_back(timer);
    }
    return {};
}

} // namespace

Result<void> describe_signals(Description &d, AgentSession &session,
                              const agent::ProcessFacts &facts, const Actions &actions)
{
    describe_actions(d, actions);
    return read_consistently(d, session, facts);
}

void add_end_of_child(Description &d, pid_t child)
{
    if (std::any_of(d.pending.begin(), d.pending.end(),
                    [](const image::PendingSignal &p) { return p.signal == SIGCHLD; }))
        return;
    siginfo_t info = {};
    info.si_signo = SIGCHLD;
    info.si_code = CLD_EXITED;
    info.si_pid = child;
    info.si_uid = getuid();
    d.pending.push_back(record_of(info, 0));
}

} // namespace cryo::capture
