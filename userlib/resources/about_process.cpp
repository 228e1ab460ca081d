// SPDX-License-Identifier: Apache-2.0
#include "resources/about_process.hpp"

#include "look/proc.hpp"

#include <algorithm>
#include <iterator>

namespace cryo::resources {

// Other files show the memory, the mounts or a descriptor that the process had when they were
// opened.
std::optional<AboutProcess> about_process(std::string_view path)
{
    constexpr std::string_view processes = "/proc/";
    constexpr std::string_view names[] = {"",
                                          "cgroup",
                                          "cmdline",
                                          "comm",
                                          "coredump_filter",
                                          "fd",
                                          "io",
                                          "limits",
                                          "loginuid",
                                          "oom_adj",
                                          "oom_score",
                                          "oom_score_adj",
                                          "personality",
                                          "sched",
                                          "schedstat",
                                          "sessionid",
                                          "stat",
                                          "statm",
                                          "status",
                                          "task",
                                          "wchan"};
    if (!path.starts_with(processes))
        return std::nullopt;
    path.remove_prefix(processes.size());
    if (path.empty() || path.front() < '1' || path.front() > '9')
        return std::nullopt;
    AboutProcess about;
    const uint64_t pid = capture::take_number(path);
    if (pid > INT32_MAX)
        return std::nullopt;
    about.pid = static_cast<uint32_t>(pid);
    if (path == "/" || (!path.empty() && path.front() != '/'))
        return std::nullopt;
    about.name = path.empty() ? path : path.substr(1);
    return std::ranges::find(names, about.name) != std::end(names) ? std::optional(about)
                                                                   : std::nullopt;
}

} // namespace cryo::resources
