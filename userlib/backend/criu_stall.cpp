// SPDX-License-Identifier: Apache-2.0
#include "backend/criu_stall.hpp"

#include "look/members.hpp"
#include "look/proc.hpp"

#include <csignal>
#include <filesystem>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::backend {

namespace {

using Clock = std::chrono::steady_clock;

// The descendants of a child of this process. Meanwhile `pid` may belong to another process.
std::vector<pid_t> own_family(pid_t pid)
{
    std::vector<pid_t> family;
    const Result<std::vector<capture::Relation>> all = capture::members_of(image::Scope::tree, pid);
    if (!all || all->empty() || all->front().ppid != getpid())
        return family;
    for (const capture::Relation &one : *all)
        family.push_back(one.pid);
    return family;
}

// In ticks of the clock. The name in /proc/PID/stat may have blanks in it.
uint64_t processor_time(pid_t pid)
{
    const Result<std::string> text = capture::Proc(pid).read("stat");
    const size_t end = text ? text->rfind(')') : std::string::npos;
    if (end == std::string::npos)
        return 0;
    std::istringstream fields(text->substr(end + 1));
    std::string passed;
    for (int i = 0; i < 11; i++)
        fields >> passed;
    uint64_t user = 0, system = 0;
    fields >> user >> system;
    return user + system;
}

} // namespace

std::vector<pid_t> CriuStall::processes() const
{
    std::vector<pid_t> all = own_family(criu_);
    const std::vector<pid_t> restored = own_family(root_);
    all.insert(all.end(), restored.begin(), restored.end());
    return all;
}

bool CriuStall::is_over()
{
    std::error_code ignored;
    uint64_t done = std::filesystem::file_size(log_, ignored);
    for (const pid_t pid : processes())
        done += processor_time(pid);
    if (done != done_) {
        done_ = done;
        since_ = Clock::now();
    }
    return Clock::now() - since_ >= longest;
}

void CriuStall::end() const
{
    for (const pid_t pid : processes())
        kill(pid, SIGKILL);
    if (!own_family(root_).empty())
        waitpid(root_, nullptr, 0);
}

} // namespace cryo::backend
