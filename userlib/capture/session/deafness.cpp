// SPDX-License-Identifier: Apache-2.0
// The C library blocks all signals for the time of a fork, an exec or a new thread. The process is
// in the kernel then, or waits for a processor: so only one counts as deaf that sleeps where
// signals wake it, or has run code of its own.
#include "capture/session/deafness.hpp"

#include "capture/session/agent_door.hpp"

#include <fmt/format.h>
#include <optional>
#include <sys/syscall.h>

namespace cryo::capture {

namespace {

constexpr uint64_t deaf_limit_ns = 2'000'000'000;
constexpr uint64_t ticks_run = 5; // of USER_HZ, which is 100

uint64_t mask_of(std::string_view status, std::string_view key)
{
    std::string_view set = field(status, key);
    return take_number(set, 16);
}

// The time in user mode; nothing: the thread has ended.
std::optional<uint64_t> ticks_of(const Proc &proc, int tid)
{
    const Result<std::string> stat = proc.read(fmt::format("task/{}/stat", tid));
    const size_t close = stat ? stat->rfind(") ") : std::string::npos;
    if (close == std::string::npos)
        return {};
    std::string_view rest = *stat;
    rest.remove_prefix(close + 2);
    constexpr int words_before = 11; // from the state on
    for (int i = 0; i < words_before; i++)
        take_word(rest);
    return take_number(rest);
}

// Cryo's own functions block the signal, too, and a file system may let an exec wait.
bool executes(const Proc &proc, int tid)
{
    const Result<std::string> call = proc.read(fmt::format("task/{}/syscall", tid));
    return call && (call->starts_with(fmt::format("{} ", SYS_execve)) ||
                    call->starts_with(fmt::format("{} ", SYS_execveat)));
}

} // namespace

// What one look sees of the threads that live.
struct Deafness::Threads {
    std::map<int, uint64_t> running; // ticks in user mode
    size_t count = 0;
    bool all_block = true;
    bool some_pending = false;
};

// With callbacks, the answer to another checkpoint may not be over yet, even if that one is. In a
// restored process Cryo's libraries are no files any more, so what it may have is not known.
bool Deafness::has_no_callbacks() const
{
    const Result<std::string> maps = proc_.read("maps");
    const auto has = [&](std::string_view name) { return maps->find(name) != std::string::npos; };
    return maps && (has("/libcr_run.so") || has("/cryo_attached.so")) && !has("/libcr.so") &&
           !has("/libcryo_");
}

Deafness::Reason Deafness::reason_now(Threads &threads) const
{
    const Result<std::vector<int>> all = proc_.numbers("task");
    const uint64_t bit = uint64_t{1} << (signal_ - 1);
    for (const int tid : all ? *all : std::vector<int>()) {
        const Result<std::string> status = proc_.read(fmt::format("task/{}/status", tid));
        const std::string_view state = status ? field(*status, "State") : std::string_view();
        if (state.empty() || state.starts_with('Z') || state.starts_with('X'))
            continue; // it has ended
        if ((!state.starts_with('S') && !state.starts_with('R')) ||
            field(*status, "SigBlk").empty())
            return Reason::none;
        threads.count++;
        threads.all_block = threads.all_block && (mask_of(*status, "SigBlk") & bit) != 0;
        threads.some_pending = threads.some_pending || (mask_of(*status, "SigPnd") & bit) != 0 ||
                               (mask_of(*status, "ShdPnd") & bit) != 0;
        if (state.starts_with('R')) {
            const std::optional<uint64_t> ticks = ticks_of(proc_, tid);
            if (!ticks)
                return Reason::none;
            threads.running.emplace(tid, *ticks);
        }
        // Where the signal is pending, any of them may yet take it.
        if (!threads.all_block && (threads.some_pending || !threads.running.empty()))
            return Reason::none;
        if (threads.all_block && executes(proc_, tid))
            return Reason::none;
    }
    if (threads.count == 0)
        return Reason::none;
    // Callbacks and threads that are held run with all signals blocked.
    if (!has_no_callbacks())
        return Reason::none;
    return threads.all_block ? Reason::blocks : Reason::takes;
}

bool Deafness::look(uint64_t now)
{
    if (signal_ == 0)
        signal_ = AgentDoor::signal_of(proc_);
    Threads threads;
    const Reason found = reason_now(threads);
    if (found != reason_ || found == Reason::none) {
        reason_ = found;
        since_ = now;
        ran_ = std::move(threads.running);
        return false;
    }
    // One that runs must have run since it was first seen to.
    bool all_ran = true;
    for (const auto &[tid, ticks] : threads.running) {
        const uint64_t before = ran_.emplace(tid, ticks).first->second;
        all_ran = all_ran && ticks >= before + ticks_run;
    }
    return all_ran && now - since_ >= deaf_limit_ns;
}

} // namespace cryo::capture
