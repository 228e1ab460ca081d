// SPDX-License-Identifier: Apache-2.0
#include "recover/job_news.hpp"

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

bool JobNews::take(const nlohmann::json &line)
{
    if (line.contains("keeper"))
        keeper_ = line.value("keeper", 0);
    if (line.contains("begun"))
        has_begun_ = true;
    if (line.contains("launcher_ended"))
        outlived_ = line.value("outlived", false);
    if (line.contains("ended"))
        left_ = line.value("left", std::vector<std::string>());
    if (!line.contains("running"))
        return false;
    has_run_ = true;
    is_elsewhere_ = line.value("elsewhere", true);
    return true;
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
