// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/ending.hpp"

#include "look/members.hpp"
#include "look/memory_file.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

namespace cryo::capture {

namespace {

// Once one has got its signal, only the image is left of it: so the others get theirs too.
Ended end_by_themselves(const std::vector<Member *> &members, int signal)
{
    Ended ended;
    for (Member *member : members) {
        if (Result<void> asked = member->process().end_with(signal); !asked && ended.all)
            ended.all = asked;
    }
    for (Member *member : members) {
        Result<void> gone = member->process().await_end();
        ended.count += gone ? 1 : 0;
        if (!gone && ended.all)
            ended.all = gone;
    }
    return ended;
}

// The signal ends each of them, unless a debugger withholds it.
Ended await_ends(const Members &members, int signal)
{
    constexpr uint64_t patience_ns = 10'000'000'000;
    constexpr timespec pause = {0, 2'000'000};
    const uint64_t begun = now_ns();
    Ended ended;
    for (const auto &member : members) {
        bool ends = member->process().is_ending();
        for (; !ends && now_ns() - begun < patience_ns; ends = member->process().is_ending())
            nanosleep(&pause, nullptr);
        ended.count += ends ? 1 : 0;
        if (!ends && ended.all)
            ended.all =
                Error(ETIMEDOUT, fmt::format("process {} has not ended by the signal {}, so its "
                                             "connections cannot be kept: use --kill",
                                             member->relation().pid, signal));
    }
    return ended;
}

// Whether a thread of a process that stands still blocks the signal, by its signal frame.
bool is_blocked(const Fd &memory, const image::Thread &thread, int signal)
{
    const RemoteAddress at = RemoteAddress(thread.sp) + offsetof(ucontext_t, uc_sigmask);
    uint64_t mask = 0;
    return read_at(memory, at, &mask, sizeof(mask)) && (mask >> (signal - 1) & 1) != 0;
}

// Why the signal does not end the process at once; nothing, if it does.
std::string_view why_it_goes_on(const Description &d, int signal)
{
    const auto number = static_cast<uint32_t>(signal);
    for (const image::Sigaction &action : d.actions) {
        if (action.signal == number && action.handler != 0)
            return action.handler == 1 ? "ignores" : "handles";
    }
    const Result<Fd> memory = d.proc.open("mem", O_RDONLY);
    const bool blocks = memory && !d.threads.empty() &&
                        std::ranges::all_of(d.threads, [&](const image::Thread &thread) {
                            return is_blocked(*memory, thread, signal);
                        });
    return blocks ? "blocks" : "";
}

} // namespace

Result<void> check_ends(const Members &members, int signal, const resources::ConnectionHold &hold)
{
    if (hold.number() == 0 || signal == SIGKILL)
        return {};
    for (const auto &member : members) {
        const std::string_view why = why_it_goes_on(member->description(), signal);
        if (!why.empty())
            return Error(ENOTSUP, fmt::format("process {} {} the signal {}, and would go on with "
                                              "connections that are kept for the restart: use "
                                              "--kill, which ends it at once",
                                              member->relation().pid, why, signal));
    }
    return {};
}

// If a member exits during the checkpoint, the first symptom is an unrelated error: a missing file
// in /proc, or an empty page map. Report the exit instead.
Error told_of_ended(const Members &members, const Error &why)
{
    if (why.reason() == Reason::has_ended)
        return why;
    for (const auto &member : members) {
        const pid_t pid = member->relation().pid;
        if (has_ended(pid)) {
            const Error told = why.within(fmt::format("process {} has ended", pid));
            return {told.code(), told.text(), Reason::has_ended};
        }
    }
    return why;
}

Result<void> resume_all(const Members &members)
{
    for (const auto &member : members) {
        if (Result<void> asked = member->process().ask_to_go_on(); !asked)
            return asked;
    }
    for (const auto &member : members) {
        if (Result<void> gone = member->process().await_go_on(); !gone)
            return gone;
    }
    return {};
}

Result<void> all_stand(const Members &members)
{
    for (const auto &member : members) {
        if (Result<void> stands = member->process().agent().check_standing(); !stands)
            return stands;
    }
    return {};
}

Ended end_all(const Members &members, int signal, resources::ConnectionHold &hold)
{
    std::vector<Member *> by_themselves, by_us;
    for (const auto &member : members)
        (member->process().sends_itself_signals() ? by_themselves : by_us).push_back(member.get());
    if (Result<void> stand = all_stand(members); !stand)
        return {stand, 0};
    if (Result<void> silent = hold.silence(); !silent)
        return {silent, 0};
    Ended ended = end_by_themselves(by_themselves, signal);
    if (!ended.all && ended.count == 0)
        return ended;
    for (const Member *member : by_us)
        member->process().send_signal(signal);
    ended.count += by_us.size();
    if (signal == SIGSTOP) {
        // The members are released only once they are stopped, so that none runs in between; they
        // cannot answer until something continues them.
        for (const auto &member : members)
            member->process().await_standstill();
        for (Member *member : by_us)
            member->process().let_go();
        return ended;
    }
    for (Member *member : by_us) {
        // A killed program does not answer.
        if (member->process().ask_to_go_on())
            static_cast<void>(member->process().await_go_on());
    }
    if (hold.number() != 0 && signal != SIGKILL) {
        if (Ended really = await_ends(members, signal); !really.all)
            ended = really;
    }
    if (ended.count != 0)
        hold.leave();
    return ended;
}

} // namespace cryo::capture
