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
#include <unistd.h>

namespace cryo::capture {

namespace {

const std::string &status_of(const Description &d, const image::Thread &thread)
{
    const auto other = d.thread_status.find(thread.tid);
    return other != d.thread_status.end() ? other->second : d.status;
}

// Threads mostly have the same filters, which are kept once.
uint32_t keep_filter(Description &d, const CallFilter &filter)
{
    std::vector<uint64_t> code;
    for (const sock_filter &step : filter.code)
        code.push_back(std::bit_cast<uint64_t>(step));
    const auto same = std::ranges::find_if(d.call_filters, [&](const image::CallFilter &kept) {
        return kept.logs == filter.logs &&
               std::ranges::equal(kept.code.bytes(), image::List<uint64_t>::of(code).bytes());
    });
    if (same != d.call_filters.end())
        return same->filter;
    image::CallFilter record;
    record.filter = static_cast<uint32_t>(d.call_filters.size() + 1);
    record.logs = filter.logs;
    record.code = d.strings.keep_list(code);
    d.call_filters.push_back(record);
    return record.filter;
}

// A restart may put a filter on only what cannot gain privileges, or has this one.
bool may_be_put_on_again(std::string_view status)
{
    std::string_view no_new = field(status, "NoNewPrivs");
    std::string_view effective = field(status, "CapEff");
    return take_number(no_new) != 0 || (take_number(effective, 16) >> CAP_SYS_ADMIN & 1) != 0;
}

Result<void> read_thread(Description &d, const image::Thread &thread, unsigned of_surroundings)
{
    const std::string &status = status_of(d, thread);
    const auto tid = static_cast<pid_t>(thread.tid);
    Result<std::vector<CallFilter>> filters = [&]() -> Result<std::vector<CallFilter>> {
        const Result<HeldThread> held = HeldThread::hold(tid, "its filters may not be read");
        return held ? read_filters(tid, of_surroundings) : held.error();
    }();
    if (!filters)
        return filters.error();
    if (filters->size() + of_surroundings != count_filters(status))
        return Error(EPROTO,
                     fmt::format("thread {}: the kernel tells {} of its {} seccomp filters", tid,
                                 filters->size() + of_surroundings, count_filters(status)));
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
    for (const CallFilter &filter : *filters)
        numbers.push_back(keep_filter(d, filter));
    if (d.call_filters.size() != before) { // each is looked at once, as the program stands still
        const std::string why = filters_obstacle(*filters);
        if (!why.empty())
            d.problems.add("the process " + why, way_out_of_filters);
    }
    record.filters = d.strings.keep_list(numbers);
    d.thread_filters.push_back(record);
    return {};
}

// All are of the surroundings, as the agent has told. Their number, which a restart of root's image
// compares, is the kernel's: a hostile program may tell another one by now.
void note_left_out(Description &d, const image::Thread &thread)
{
    image::ThreadFilters record;
    record.tid = thread.tid;
    record.of_surroundings = count_filters(status_of(d, thread));
    if (record.of_surroundings != 0 && (geteuid() == 0 || may_read_filters()))
        d.thread_filters.push_back(record);
}

} // namespace

Result<void> describe_filters(Description &d, const AgentSession &session)
{
    const unsigned of_surroundings = AgentDoor::filters_of(d.proc);
    for (const image::Thread &thread : d.threads) {
        const auto obstacle = filter_obstacle(d.proc, status_of(d, thread));
        if (!obstacle) {
            note_left_out(d, thread);
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
        if (Result<void> read = read_thread(d, thread, of_surroundings); !read)
            return read;
    }
    return {};
}

} // namespace cryo::capture
