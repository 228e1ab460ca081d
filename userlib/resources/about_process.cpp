// SPDX-License-Identifier: Apache-2.0
#include "resources/about_process.hpp"

#include "look/proc.hpp"
#include "resources/paths.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <sys/stat.h>

namespace cryo::resources {

// Other files show the memory, the mounts or a descriptor that the process had when they were
// opened.
std::optional<AboutProcess> about_process(std::string_view path)
{
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
    const std::optional<AboutProcess> about = in_directory_of_process(path);
    return about && std::ranges::find(names, about->name) != std::end(names) ? about : std::nullopt;
}

std::optional<AboutProcess> in_directory_of_process(std::string_view path)
{
    constexpr std::string_view processes = "/proc/";
    if (!path.starts_with(processes))
        return std::nullopt;
    if (path.ends_with(gone))
        path.remove_suffix(gone.size());
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
    return about.name.find('/') == std::string_view::npos && !about.name.starts_with('.')
               ? std::optional(about)
               : std::nullopt;
}

std::optional<AboutProcess> about_ended(const Seen &seen)
{
    if (!S_ISREG(seen.status.st_mode) && !S_ISDIR(seen.status.st_mode))
        return std::nullopt;
    const std::optional<AboutProcess> about = in_directory_of_process(seen.link);
    const bool is_there = !about || kill(static_cast<pid_t>(about->pid), 0) == 0 || errno != ESRCH;
    return is_there || is_named(seen) ? std::nullopt : about;
}

} // namespace cryo::resources
