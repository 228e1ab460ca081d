// SPDX-License-Identifier: Apache-2.0
#include "look/back_stopped.hpp"

#include "look/members.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <vector>

namespace cryo::capture {

bool has_come_back_stopped(const Proc &proc)
{
    const Result<Relation> now = relation_of(proc.pid());
    if (!now || !now->stopped || now->traced)
        return false;
    const std::string plan = fmt::format("/memfd:{} (deleted)", plan_name);
    const Result<std::vector<int>> open = proc.numbers("fd");
    return open && std::ranges::any_of(*open, [&](int fd) {
               const Result<std::string> target = proc.link(fmt::format("fd/{}", fd));
               return target && *target == plan;
           });
}

} // namespace cryo::capture
