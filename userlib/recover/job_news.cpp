// SPDX-License-Identifier: Apache-2.0
#include "recover/job_news.hpp"

#include "base/clock.hpp"
#include "cli/text.hpp"
#include "recover/report.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cryo::recover {

void JobNews::begin_run(Run run)
{
    run_ = run;
    keeper_ = 0;
    has_begun_ = has_run_ = false;
    is_unfinished_ = is_fault_ = false;
    lease_ns_ = until_ns_ = 0;
    outlived_.reset();
    left_.reset();
    lost_.clear();
}

namespace {

constexpr uint64_t longest_silence_ns = 60'000'000'000; // of a job's daemon that is there

std::optional<std::vector<std::string>> names_in(const nlohmann::json &line, const char *name)
{
    const auto at = line.find(name);
    if (at == line.end() || !at->is_array() ||
        !std::ranges::all_of(*at, [](const nlohmann::json &one) { return one.is_string(); }))
        return std::nullopt;
    return at->get<std::vector<std::string>>();
}

} // namespace

std::string loss_text(const std::vector<LostNode> &lost)
{
    std::vector<std::string> names;
    names.reserve(lost.size());
    for (const LostNode &node : lost)
        names.push_back(node.name);
    const bool one = names.size() == 1;
    return fmt::format("{} {} {} lost", one ? "node" : "nodes", fmt::join(names, ", "),
                       one ? "was" : "were");
}

std::string end_text(const LostNode &node, int64_t waited_ns)
{
    const std::string waited =
        waited_ns > 0
            ? fmt::format("after {} more ", cli::duration_text(static_cast<uint64_t>(waited_ns)))
            : "";
    return fmt::format("node {} was lost at {}; {}its ranks are dead", node.name,
                       cli::time_text(node.noted_ns), waited);
}

bool JobNews::take(const nlohmann::json &line)
{
    const auto says = [&](const char *name) { return flag_in(line, name).value_or(false); };
    if (const pid_t keeper = process_in(line, "keeper"); keeper != 0)
        keeper_ = keeper;
    if (says("begun")) {
        has_begun_ = true;
        lease_ns_ = number_in(line, "lease_ns").value_or(0);
    }
    if (says("launcher_ended")) {
        outlived_ = says("outlived");
        is_unfinished_ = says("unfinished");
        is_fault_ = says("fault");
    }
    if (const auto lost = line.find("lost"); lost != line.end() && lost->is_string())
        lost_.push_back({.name = *lost, .noted_ns = clock_ns(CLOCK_REALTIME)});
    if (says("ended")) {
        left_ = names_in(line, "left");
        until_ns_ = number_in(line, "until_ns").value_or(0);
    }
    if (says("elsewhere"))
        is_elsewhere_ = true;
    if (!says("running"))
        return false;
    has_run_ = true;
    is_elsewhere_ = flag_in(line, "elsewhere").value_or(true);
    is_unfenced_ = flag_in(line, "unfenced").value_or(false);
    return true;
}

bool JobNews::is_silent(uint64_t begun_ns, uint64_t now_ns) const
{
    return now_ns - std::min(now_ns, std::max(begun_ns, heard_ns_)) >=
           longest_silence_ns + static_cast<uint64_t>(lease_ns_);
}

// A node that nobody reaches is known for lost only when its lease has ended, which the daemon
// awaits before its own end.
bool JobNews::knows_launchers_end() const
{
    return left_.has_value() || (outlived_ && is_elsewhere_ == false);
}

// A daemon that was killed tells nothing, nor does one to which not all ranks have come, unless
// none acts before it has a lease.
Result<int64_t> JobNews::when_gone(std::optional<int64_t> daemon_ended) const
{
    const bool any_left = left_ && !left_->empty();
    const bool all_here = is_elsewhere_ == false && lost_.empty();
    const bool has_leases = lease_ns_ > 0 && (has_run_ || run_ == Run::restart);
    if (!has_begun_ || (all_here && !any_left))
        return 0;
    if (!any_left && left_ && (has_run_ || has_leases))
        return until_ns_;
    if (!any_left && has_leases && daemon_ended && !is_unfenced_)
        return *daemon_ended + lease_ns_;
    return Error(EHOSTUNREACH,
                 fmt::format("nothing shows that its ranks{} have ended (when they have, use "
                             "ompi-restart)",
                             any_left ? fmt::format(" on {}", fmt::join(*left_, ", ")) : ""));
}

} // namespace cryo::recover
