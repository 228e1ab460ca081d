// SPDX-License-Identifier: Apache-2.0
#include "restore/surroundings.hpp"

#include "look/filters.hpp"
#include "look/proc.hpp"
#include "look/tried_calls.hpp"
#include "restore/plan_parts.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <sys/prctl.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

std::string filters_text(unsigned count)
{
    return count == 0   ? "none"
           : count == 1 ? "1 seccomp filter"
                        : fmt::format("{} seccomp filters", count);
}

// How many filters the surroundings are said to have put on a thread. Root's images have that.
unsigned noted_of_surroundings(const Saved &saved)
{
    unsigned most = 0;
    for (const auto &[tid, one] : saved.of<image::ThreadFilters>())
        most = std::max(most, one.of_surroundings);
    return most;
}

// A thread under filters of which the image says nothing was under those of the surroundings alone.
bool was_under_unknown(const Saved &saved)
{
    return saved.process.seccomp != 0 &&
           !saved.of<image::ThreadFilters>().contains(saved.process.pid);
}

unsigned count_here()
{
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) <= 0)
        return 0;
    const Result<std::string> status = capture::Proc(getpid()).read("status");
    return std::max(1U, status ? capture::count_filters(*status) : 0);
}

// Empty: nothing.
std::string what_passes_here(const std::vector<sock_filter> &code)
{
    if (code.empty())
        return "one of them could not be read, as the program was traced";
    const capture::StoppedCalls stopped = capture::stopped_calls(code);
    const Result<std::optional<capture::FullCall>> passing =
        capture::first_that_passes(stopped.calls);
    if (!passing)
        return passing.error().text();
    if (*passing)
        return capture::text_of(**passing) + " passes here, and did not there";
    return stopped.are_all ? "" : "it cannot be tried out whether these stop as much";
}

// Most processes have the same ones. What passes here does so for good.
const std::string &what_passes_known(const image::CallFilter &filter)
{
    static std::map<std::vector<uint8_t>, std::string> known;
    const image::Bytes code = filter.code.bytes();
    const auto [place, is_new] = known.try_emplace({code.begin(), code.end()});
    if (is_new)
        place->second = what_passes_here(code_of(filter));
    return place->second;
}

// Images that root has saved have these.
Result<void> compare_surroundings(Planning &p)
{
    for (const auto &[id, filter] : p.saved.of<image::CallFilter>()) {
        if (!is_of_surroundings(p.saved, filter))
            continue;
        const std::string &why = what_passes_known(filter);
        if (why.empty())
            continue;
        if (!p.options.other_surroundings && !p.options.rehearse)
            return Error(EPERM,
                         fmt::format("process {} was under seccomp filters that its container or "
                                     "service has put on it, as it says itself, and cr_restart is "
                                     "under others ({}): run cr_restart in such surroundings, or "
                                     "accept that it comes back under these "
                                     "(--other-surroundings)",
                                     p.saved.process.pid, why));
        notice_once(p, fmt::format("the program runs under other seccomp filters of its "
                                   "surroundings here: {}",
                                   why));
        return {};
    }
    return {};
}

} // namespace

std::vector<sock_filter> code_of(const image::CallFilter &filter)
{
    std::vector<sock_filter> code;
    for (size_t i = 0; i < filter.code.size(); i++)
        code.push_back(std::bit_cast<sock_filter>(filter.code[i]));
    return code;
}

bool is_of_surroundings(const Saved &saved, const image::CallFilter &filter)
{
    return std::ranges::none_of(saved.of<image::ThreadFilters>(), [&](const auto &of_thread) {
        const image::List<uint32_t> &own = of_thread.second.filters;
        for (size_t i = 0; i < own.size(); i++)
            if (own[i] == filter.filter)
                return true;
        return false;
    });
}

// What the surroundings have put on is what the program says, which may count its own filters among
// them to be rid of them. So those here must be as many, and stop what these have stopped, as far
// as the image has that. A rehearsed program never runs.
Result<void> check_surroundings(Planning &p)
{
    const unsigned noted = noted_of_surroundings(p.saved);
    const unsigned before = std::max(noted, was_under_unknown(p.saved) ? 1U : 0U);
    const unsigned here = count_here();
    if (before <= here)
        return compare_surroundings(p);
    const bool by_root = noted != 0 || geteuid() == 0;
    if (by_root && !p.options.other_surroundings && !p.options.rehearse)
        return Error(EPERM,
                     fmt::format("process {} was under {}, which its container or service has put "
                                 "on it, as it says itself, and cr_restart is under {}: run "
                                 "cr_restart in such surroundings, or accept that it comes back "
                                 "without them (--other-surroundings)",
                                 p.saved.process.pid, filters_text(before), filters_text(here)));
    notice_once(p, here == 0 ? "the program ran under a seccomp filter, of its container or its "
                               "service, and does not here"
                             : fmt::format("the program ran under {} of its surroundings, and is "
                                           "under {} here",
                                           filters_text(before), filters_text(here)));
    return {};
}

} // namespace cryo::restore
