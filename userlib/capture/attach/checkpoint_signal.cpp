// SPDX-License-Identifier: Apache-2.0
#include "capture/attach/checkpoint_signal.hpp"

#include "capture/tracing/seized_thread.hpp"

#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <functional>
#include <set>
#include <time.h>

namespace cryo::capture {

namespace {

constexpr int first_real_time = 34; // the C library has two for itself
constexpr int last_real_time = 64;

constexpr uint64_t bit(int signal)
{
    return uint64_t{1} << (signal - 1);
}

uint64_t mask_of(std::string_view status, std::string_view key)
{
    std::string_view set = field(status, key);
    return take_number(set, 16);
}

uint64_t mask_of_thread(const Proc &proc, int tid, std::string_view key)
{
    const Result<std::string> status = proc.read(fmt::format("task/{}/status", tid));
    return status ? mask_of(*status, key) : 0;
}

std::vector<int> threads_of(const Proc &proc)
{
    Result<std::vector<int>> threads = proc.numbers("task");
    return threads ? std::move(*threads) : std::vector<int>();
}

// The kernel shows the complement of nothing: the mask is as the program gave it.
uint64_t read_by_descriptors(const Proc &proc)
{
    uint64_t mask = 0;
    const Result<std::vector<int>> all = proc.numbers("fd");
    for (const int fd : all ? *all : std::vector<int>()) {
        const Result<std::string> link = proc.link(fmt::format("fd/{}", fd));
        if (!link || *link != "anon_inode:[signalfd]")
            continue;
        if (const Result<std::string> info = proc.read(fmt::format("fdinfo/{}", fd)); info)
            mask |= mask_of(*info, "sigmask");
    }
    return mask;
}

// The last one is what an agent of libcr would take, if the program opens that later.
int highest_in(uint64_t set)
{
    for (int signal = last_real_time - 1; signal >= first_real_time; signal--) {
        if ((set & bit(signal)) != 0)
            return signal;
    }
    return (set & bit(last_real_time)) != 0 ? last_real_time : 0;
}

// Threads that block it in each of several looks.
std::set<int> blocking_for_good(const Proc &proc, int signal)
{
    constexpr int looks = 20;
    constexpr timespec pause = {0, 5'000'000};
    std::set<int> blocking;
    for (int i = 0; i < looks; i++) {
        std::set<int> now;
        for (const int tid : threads_of(proc)) {
            if ((mask_of_thread(proc, tid, "SigBlk") & bit(signal)) != 0 &&
                (i == 0 || blocking.count(tid) != 0))
                now.insert(tid);
        }
        blocking = std::move(now);
        if (blocking.empty())
            break;
        nanosleep(&pause, nullptr);
    }
    return blocking;
}

// The number of a thread that has ended may be that of a thread of another process by now.
Result<void> unblock_in(const Proc &proc, int tid, int signal, const std::function<bool()> &hears,
                        uint64_t deadline_ns)
{
    Result<SeizedThread> thread = SeizedThread::seize(proc.pid(), tid, deadline_ns);
    if (!thread)
        return thread.error();
    if (Result<void> hidden = thread->hide_stop(); !hidden)
        return hidden;
    if (!proc.read(fmt::format("task/{}/status", tid)) || !hears())
        return {}; // lets go of it
    Result<uint64_t> mask = thread->mask();
    return mask ? thread->set_mask(*mask & ~bit(signal)) : Result<void>(mask.error());
}

} // namespace

Result<int> choose_signal(const Proc &proc)
{
    const Result<std::string> status = proc.read("status");
    if (!status)
        return Error(ESRCH, fmt::format("no process {}", proc.pid()));
    uint64_t used = mask_of(*status, "SigCgt") | mask_of(*status, "SigIgn") |
                    mask_of(*status, "ShdPnd") | read_by_descriptors(proc);
    uint64_t blocked = 0;
    for (const int tid : threads_of(proc)) {
        used |= mask_of_thread(proc, tid, "SigPnd");
        blocked |= mask_of_thread(proc, tid, "SigBlk");
    }
    if (const int free = highest_in(~(used | blocked)); free != 0)
        return free;
    if (const int silent = highest_in(~used); silent != 0)
        return silent;
    return Error(EBUSY,
                 fmt::format("process {} uses each of the real-time signals (a program in Go "
                             "does), and Cryo needs one: start it under cr_run --signal",
                             proc.pid()));
}

bool blocks_for_good(const Proc &proc, int signal)
{
    return !blocking_for_good(proc, signal).empty();
}

Result<void> unblock(const Proc &proc, int signal, const std::function<bool()> &hears,
                     uint64_t deadline_ns)
{
    for (const int tid : blocking_for_good(proc, signal)) {
        Result<void> done = unblock_in(proc, tid, signal, hears, deadline_ns);
        if (!done && done.error().code() != ESRCH) // it has ended
            return done;
    }
    return {};
}

} // namespace cryo::capture
