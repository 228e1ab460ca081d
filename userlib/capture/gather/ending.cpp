// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/ending.hpp"

#include "look/members.hpp"

#include <csignal>
#include <fmt/format.h>
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

} // namespace

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

Ended end_all(const Members &members, int signal)
{
    std::vector<Member *> by_themselves, by_us;
    for (const auto &member : members)
        (member->process().sends_itself_signals() ? by_themselves : by_us).push_back(member.get());
    if (Result<void> stand = all_stand(members); !stand)
        return {stand, 0};
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
    return ended;
}

} // namespace cryo::capture
