// SPDX-License-Identifier: Apache-2.0
// Filters of system calls (seccomp). From the first of them on, what the restorer and the agent
// call has to pass it: the agent's calls were judged at the checkpoint, the restorer's are here.
#include "look/agent_calls.hpp"
#include "restore/plan_parts.hpp"
#include "restore/surroundings.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string>
#include <sys/syscall.h>
#include <vector>

namespace cryo::restore {

namespace {

constexpr size_t most_filters = 8192; // more than the kernel lets a thread have

Result<void> check_code(const std::vector<sock_filter> &code)
{
    if (code.empty() || code.size() > BPF_MAXINSNS)
        return Error(EINVAL, fmt::format("a seccomp filter of {} instructions", code.size()));
    if (const capture::AgentCall *stopped =
            capture::first_stopped(code, capture::calls_after_filters()))
        return Error(ENOTSUP, fmt::format("a seccomp filter of the program does not allow {}(2), "
                                          "which a restart calls when it has put the filter on",
                                          stopped->name));
    return {};
}

bool are_alike(const Saved &saved, const image::Thread &a, const image::Thread &b)
{
    const auto &of_threads = saved.of<image::ThreadFilters>();
    const auto first = of_threads.find(a.tid);
    const auto second = of_threads.find(b.tid);
    return first != of_threads.end() && second != of_threads.end() &&
           std::ranges::equal(first->second.filters.bytes(), second->second.filters.bytes()) &&
           first->second.speculation_lost == second->second.speculation_lost &&
           (a.own_credentials ? a.no_new_privs : saved.process.no_new_privs) ==
               (b.own_credentials ? b.no_new_privs : saved.process.no_new_privs);
}

// Then the main thread puts them on all at once, so that they are shared as they were: only threads
// that share theirs may do that later (SECCOMP_FILTER_FLAG_TSYNC).
bool all_are_alike(const Saved &saved)
{
    return saved.threads().size() > 1 &&
           std::ranges::all_of(saved.threads(), [&](const image::Thread &thread) {
               return are_alike(saved, saved.threads().front(), thread);
           });
}

} // namespace

Result<void> place_filters(Planning &p)
{
    Program &program = p.plan.program;
    for (const auto &[id, filter] : p.saved.of<image::CallFilter>()) {
        if (is_of_surroundings(p.saved, filter))
            continue;
        const std::vector<sock_filter> code = code_of(filter);
        if (Result<void> good = check_code(code); !good)
            return good;
        const sock_fprog head = {static_cast<unsigned short>(code.size()), nullptr};
        const Operand place = program.data(&head, sizeof(head));
        program.add(Do::store, "placing a filter of system calls",
                    {{place.kind, place.number + offsetof(sock_fprog, filter)},
                     program.data(code.data(), code.size() * sizeof(code[0])),
                     value(sizeof(uint64_t))});
        p.filters.emplace(id, place);
    }
    return {};
}

Result<void> plan_filters(Planning &p, const image::Thread &thread)
{
    const auto &of_threads = p.saved.of<image::ThreadFilters>();
    const auto found = of_threads.find(thread.tid);
    if (found == of_threads.end() || found->second.filters.empty())
        return {};
    const image::ThreadFilters &saved = found->second;
    const bool on_all = all_are_alike(p.saved);
    if (on_all && thread.tid != p.saved.threads().front().tid)
        return {};
    if (!may_put_on_filters(p, thread))
        return Error(EPERM, fmt::format("thread {} was under a seccomp filter of its own, which it "
                                        "can put on again only with CAP_SYS_ADMIN, or with "
                                        "no_new_privs; restart it as root",
                                        thread.tid));
    if (saved.filters.size() > most_filters)
        return Error(EINVAL, fmt::format("thread {} with {} seccomp filters", thread.tid,
                                         saved.filters.size()));
    for (size_t i = 0; i < saved.filters.size(); i++) {
        const auto place = p.filters.find(saved.filters[i]);
        if (place == p.filters.end())
            return Error(EINVAL, fmt::format("thread {} was under seccomp filter {}, which the "
                                             "image does not have",
                                             thread.tid, saved.filters[i]));
        const image::CallFilter &filter = p.saved.of<image::CallFilter>().at(saved.filters[i]);
        const bool is_last = i + 1 == saved.filters.size();
        if (!is_last && capture::first_stopped(code_of(filter), capture::calls_between_filters()))
            return Error(ENOTSUP, fmt::format("thread {} was under several seccomp filters, of "
                                              "which one does not allow seccomp(2), by which a "
                                              "restart puts on the next one",
                                              thread.tid));
        const unsigned flags = (filter.logs ? SECCOMP_FILTER_FLAG_LOG : 0) |
                               (saved.speculation_lost ? 0 : SECCOMP_FILTER_FLAG_SPEC_ALLOW) |
                               (on_all ? SECCOMP_FILTER_FLAG_TSYNC : 0);
        p.plan.program.call_exact(
            fmt::format("thread {}: putting on a filter of system calls "
                        "(a seccomp filter of cr_restart's surroundings, or too "
                        "many of them, may prevent it)",
                        thread.tid),
            SYS_seccomp, 0, {value(SECCOMP_SET_MODE_FILTER), value(flags), place->second});
    }
    return {};
}

} // namespace cryo::restore
