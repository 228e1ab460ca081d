// SPDX-License-Identifier: Apache-2.0
#include "recover/job_news.hpp"

#include "recover/report.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cryo::recover {

void JobNews::begin_run()
{
    keeper_ = 0;
    has_begun_ = has_run_ = false;
    outlived_.reset();
    left_.reset();
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

bool JobNews::take(const nlohmann::json &line)
{
    const auto says = [&](const char *name) { return flag_in(line, name).value_or(false); };
    if (const pid_t keeper = process_in(line, "keeper"); keeper != 0)
        keeper_ = keeper;
    has_begun_ = has_begun_ || says("begun");
    if (says("launcher_ended"))
        outlived_ = says("outlived");
    if (says("ended"))
        left_ = names_in(line, "left");
    if (says("elsewhere"))
        is_elsewhere_ = true;
    if (!says("running"))
        return false;
    has_run_ = true;
    is_elsewhere_ = flag_in(line, "elsewhere").value_or(true);
    return true;
}

bool JobNews::is_silent(uint64_t begun_ns, uint64_t now_ns) const
{
    return now_ns - std::min(now_ns, std::max(begun_ns, heard_ns_)) >= longest_silence_ns;
}

// A daemon that was killed tells nothing, nor does one to which not all ranks have come.
Result<void> JobNews::check_end() const
{
    const bool any_left = left_ && !left_->empty();
    const bool all_here = is_elsewhere_.has_value() && !*is_elsewhere_;
    if (!has_begun_ || (!any_left && (all_here || (has_run_ && left_))))
        return {};
    return Error(EHOSTUNREACH,
                 fmt::format("nothing shows that its ranks{} have ended (when they have, use "
                             "ompi-restart)",
                             any_left ? fmt::format(" on {}", fmt::join(*left_, ", ")) : ""));
}

} // namespace cryo::recover
