// SPDX-License-Identifier: Apache-2.0
#include "look/queue_holders.hpp"

#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <system_error>
#include <unistd.h>

namespace cryo::capture {

namespace {

bool holds(pid_t pid, const struct stat &queue)
{
    std::error_code error;
    for (const auto &entry :
         std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), error)) {
        struct stat status;
        if (stat(entry.path().c_str(), &status) == 0 && status.st_ino == queue.st_ino &&
            status.st_dev == queue.st_dev)
            return true;
    }
    return false;
}

} // namespace

pid_t queue_holder(const struct stat &queue, const std::set<pid_t> &but)
{
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator("/proc", error)) {
        const std::string name = entry.path().filename();
        pid_t pid = 0;
        std::from_chars(name.data(), name.data() + name.size(), pid);
        if (pid != 0 && pid != getpid() && but.count(pid) == 0 && holds(pid, queue))
            return pid;
    }
    return 0;
}

} // namespace cryo::capture
