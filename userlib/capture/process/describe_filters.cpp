// SPDX-License-Identifier: Apache-2.0
// The filters of system calls (seccomp) that the program has put on itself. Before the stop they
// were judged (session/own_filters.hpp); what counts is what the kernel tells now.
#include "capture/process/describe.hpp"

#include "capture/process/held_thread.hpp"
#include "capture/session/agent_door.hpp"
#include "capture/session/enterable.hpp"
#include "capture/session/own_filters.hpp"
#include "look/filters.hpp"
#include "look/thread_filters.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <linux/capability.h>
#include <span>
#include <unistd.h>

namespace cryo::capture {

namespace {

const std::string &status_of(const Description &d, const image::Thread &thread)
{
    const auto other = d.thread_status.find(thread.tid);
    return other != d.thread_status.end() ? other->second : d.status;
}

// Of all threads, which mostly have the same filters. One of the surroundings is never taken for
// one that is alike and that a thread has put on itself, nor the other way round.
struct Kept {
    std::vector<uint32_t> own, of_surroundings; // CALL_FILTER
};

// Each is kept once `among` these.
uint32_t keep_filter(Description &d, std::vector<uint32_t> &among, const CallFilter &filter)
{
    std::vector<uint64_t> code;
    for (const sock_filter &step : filter.code)
        code.push_back(std::bit_cast<uint64_t>(step));
    const auto same = std::ranges::find_if(among, [&](uint32_t number) {
        const image::CallFilter &kept = d.call_filters[number - 1];
        return kept.logs == filter.logs &&
               std::ranges::equal(kept.code.bytes(), image::List<uint64_t>::of(code).bytes());
    });
    if (same != among.end())
        return *same;
    image::CallFilter record;
    record.filter = static_cast<uint32_t>(d.call_filters.size() + 1);
    record.logs = filter.logs;
    record.code = d.strings.keep_list(code);
    d.call_filters.push_back(record);
    among.push_back(record.filter);
    return record.filter;
}

Result<std::vector<CallFilter>> read_all(pid_t tid)
{
    const Result<HeldThread> held = HeldThread::hold(tid, "its filters may not be read");
    return held ? read_filters(tid, 0) : held.error();
}

// A restart may put a filter on only what cannot gain privileges, or has this one.
bool may_be_put_on_again(std::string_view status)
{
    std::string_view no_new = field(status, "NoNewPrivs");
    std::string_view effective = field(status, "CapEff");
    return take_number(no_new) != 0 || (take_number(effective, 16) >> CAP_SYS_ADMIN & 1) != 0;
}

Result<void> read_thread(Description &d, Kept &kept, const image::Thread &thread,
                         unsigned of_surroundings)
{
    const std::string &status = status_of(d, thread);
    const auto tid = static_cast<pid_t>(thread.tid);
    const Result<std::vector<CallFilter>> all = read_all(tid);
    if (!all)
        return all.error();
    if (all->size() != count_filters(status) || all->size() < of_surroundings)
        return Error(EPROTO, fmt::format("thread {}: the kernel tells {} of its {} seccomp filters",
                                         tid, all->size(), count_filters(status)));
    for (const CallFilter &filter : std::span(*all).first(of_surroundings))
        keep_filter(d, kept.of_surroundings, filter);
    const std::span<const CallFilter> filters = std::span(*all).subspan(of_surroundings);
    if (!may_be_put_on_again(status))
        d.problems.add(fmt::format("thread {} has put a seccomp filter on itself by a privilege "
                                   "(CAP_SYS_ADMIN) that it has given up since",
                                   tid),
                       "the program must set no_new_privs (prctl) before");
    image::ThreadFilters record;
    record.tid = thread.tid;
    record.of_surroundings = of_surroundings;
    record.speculation_lost = is_speculation_lost(status);
    const size_t before = d.call_filters.size();
    std::vector<uint32_t> numbers;
    for (const CallFilter &filter : filters)
        numbers.push_back(keep_filter(d, kept.own, filter));
    if (d.call_filters.size() != before) { // each is looked at once, as the program stands still
        const std::string why = filters_obstacle(filters);
        if (!why.empty())
            d.problems.add("the process " + why, way_out_of_filters);
    }
    record.filters = d.strings.keep_list(numbers);
    d.thread_filters.push_back(record);
    return {};
}

// All are of the surroundings, as the agent has told. Their number, which a restart of root's image
// compares, is the kernel's: a hostile program may tell another one by now. So are their
// instructions.
void note_left_out(Description &d, Kept &kept, const image::Thread &thread)
{
    image::ThreadFilters record;
    record.tid = thread.tid;
    record.of_surroundings = count_filters(status_of(d, thread));
    if (record.of_surroundings == 0 || (geteuid() != 0 && !may_read_filters()))
        return;
    d.thread_filters.push_back(record);
    if (!may_read_filters())
        return;
    // Where the kernel, or this system, tells nobody, a restart has the number only. But a tracer
    // may be there to prevent it.
    std::string_view tracer = field(status_of(d, thread), "TracerPid");
    if (const Result<std::vector<CallFilter>> filters = read_all(static_cast<pid_t>(thread.tid)))
        for (const CallFilter &filter : *filters)
            keep_filter(d, kept.of_surroundings, filter);
    else if (take_number(tracer) != 0)
        keep_filter(d, kept.of_surroundings, {});
}

} // namespace

Result<void> describe_filters(Description &d, const AgentSession &session)
{
    const unsigned of_surroundings = AgentDoor::filters_of(d.proc);
    Kept kept;
    for (const image::Thread &thread : d.threads) {
        const auto obstacle = filter_obstacle(d.proc, status_of(d, thread));
        if (!obstacle) {
            note_left_out(d, kept, thread);
            continue;
        }
        if (!obstacle->is_readable) {
            d.problems.add(fmt::format("thread {} {}", thread.tid, obstacle->what),
                           obstacle->way_out);
            continue;
        }
        if (!session.relies_on_judged_filters()) {
            d.problems.add("the process " + obstacle->what + ", and an agent of an earlier release",
                           "start it without the filter, or again under this release's cr_run");
            return {};
        }
        if (Result<void> read = read_thread(d, kept, thread, of_surroundings); !read)
            return read;
    }
    return {};
}

} // namespace cryo::capture
