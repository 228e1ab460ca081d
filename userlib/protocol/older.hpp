// SPDX-License-Identifier: Apache-2.0
//
// Requests as they were before protocol 20: four numbers, whatever the operation; and features by
// version. Older agents come back with images and live on in programs that run, and older
// checkpointers may be in use beside a newer libcr. The checkpointer uses this form for an agent
// that is older, or whose release it does not know yet: all understand it.
//
//     const Command command = older_form(TimerRequest{.id = 3});
//     const TimerRequest request = from_older<TimerRequest>(command);
#pragma once

#include "protocol/requests.hpp"

#include <cstdint>

namespace cryo::agent {

constexpr uint16_t first_typed = 20; // protocol
constexpr uint16_t last_older = first_typed - 1;

struct Command {
    Head head;
    uint64_t arg[4];
};
static_assert(sizeof(Command) == 40);

constexpr uint64_t features_of(uint16_t version)
{
    constexpr struct {
        uint16_t since;
        Feature feature;
    } history[] = {
        {4, Feature::forward},     {5, Feature::policies}, {6, Feature::ipc},
        {9, Feature::tracker},     {10, Feature::stage},   {12, Feature::touched},
        {13, Feature::soft_dirty}, {13, Feature::undo},    {16, Feature::scan},
        {17, Feature::alive},      {18, Feature::aio},
    };
    uint64_t features = 0;
    for (const auto &step : history)
        features |= version >= step.since ? static_cast<uint64_t>(step.feature) : 0;
    return features;
}

// The two directions of one translation.
struct FromArguments {
    const uint64_t (&arg)[4];
    uint16_t version;
    template <class T>
    constexpr void number(int i, T &to) const
    {
        to = static_cast<T>(arg[i]);
    }
    constexpr void flag(int i, uint32_t &flags, uint32_t bit) const
    {
        flags |= arg[i] != 0 ? bit : 0;
    }
    constexpr void features(uint64_t &to) const { to = features_of(version); }
};
struct ToArguments {
    uint64_t (&arg)[4];
    template <class T>
    constexpr void number(int i, const T &from) const
    {
        arg[i] = static_cast<uint64_t>(from);
    }
    constexpr void number(int i, const RemoteAddress &from) const { arg[i] = from.number(); }
    constexpr void flag(int i, uint32_t flags, uint32_t bit) const
    {
        arg[i] = (flags & bit) != 0 ? 1 : 0;
    }
    constexpr void features(uint64_t) const {} // told by the version
};

// Which number is which member.
template <Op op>
constexpr void translate(PlainRequest<op> &, auto)
{}
constexpr void translate(PrepareRequest &r, auto to)
{
    to.features(r.features);
}
constexpr void translate(PagesRequest &r, auto to)
{
    to.number(0, r.start);
    to.number(1, r.length);
    to.flag(2, r.flags, PagesRequest::zeros_for_missing);
    int32_t plus_one = r.protection + 1; // 0: unknown
    to.number(3, plus_one);
    r.protection = plus_one - 1;
}
constexpr void translate(ScanRequest &r, auto to)
{
    to.number(0, r.start);
    to.number(1, r.end);
}
constexpr void translate(ResumeRequest &r, auto to)
{
    to.number(0, r.why);
    to.number(1, r.signal);
}
constexpr void translate(AliveRequest &r, auto to)
{
    to.flag(0, r.flags, AliveRequest::wants_reply);
}
constexpr void translate(TimerRequest &r, auto to)
{
    to.number(0, r.id);
}
constexpr void translate(DescriptorsRequest &r, auto to)
{
    to.number(0, r.first);
    to.number(1, r.wanted[0]);
    to.number(2, r.wanted[1]);
    to.number(3, r.wanted[2]);
}
constexpr void translate(TerminalRequest &r, auto to)
{
    to.number(0, r.master);
}
constexpr void translate(QueueRequest &r, auto to)
{
    to.number(0, r.descriptor);
}
constexpr void translate(TrackerRequest &r, auto to)
{
    to.number(0, r.kind);
}
constexpr void translate(WatchedRequest &r, auto to)
{
    to.number(0, r.token[0]);
    to.number(1, r.token[1]);
    to.flag(2, r.flags, WatchedRequest::is_over);
    to.number(3, r.notes);
}
constexpr void translate(StageRequest &r, auto to)
{
    to.number(0, r.count);
    to.number(1, r.offset);
}
constexpr void translate(TouchedRequest &r, auto to)
{
    to.number(0, r.start);
    to.number(1, r.count);
}
constexpr void translate(UndoRequest &r, auto to)
{
    to.number(0, r.id);
    to.number(1, r.first);
    to.number(2, r.count);
}
constexpr void translate(AioRequest &r, auto to)
{
    to.number(0, r.ring);
    to.number(1, r.bytes);
    to.number(2, r.idle);
}
constexpr void translate(ProveRequest &, auto) {} // no older release has it

template <class R>
constexpr Command older_form(R request)
{
    Command command = {{protocol_magic, last_older, R::op}, {}};
    translate(request, ToArguments{command.arg});
    return command;
}

template <class R>
constexpr R from_older(const Command &command)
{
    R request = {};
    translate(request, FromArguments{command.arg, command.head.version});
    return request;
}

} // namespace cryo::agent
