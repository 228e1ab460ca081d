// SPDX-License-Identifier: Apache-2.0
#include "recover/leftovers.hpp"

#include "cli/place.hpp"
#include "look/members.hpp"
#include "look/proc.hpp"

#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::recover {

namespace {

// A keeper is not the program's, but in a session of its own, and ends when the program has ended.
bool is_keeper(pid_t pid)
{
    struct stat its = {};
    struct stat keeper = {};
    return stat(cli::library("cryo/keeper").c_str(), &keeper) == 0 &&
           stat(capture::Proc(pid).path("exe").c_str(), &its) == 0 && its.st_dev == keeper.st_dev &&
           its.st_ino == keeper.st_ino;
}

} // namespace

Result<std::set<pid_t>> leftovers()
{
    Result<std::set<pid_t>> all = capture::children_of(getpid());
    if (all)
        std::erase_if(*all, is_keeper);
    return all;
}

Result<void> end_leftovers(const std::function<bool()> &await)
{
    for (;;) {
        const Result<std::set<pid_t>> all = leftovers();
        if (!all)
            return all.error();
        if (all->empty())
            return {};
        for (const pid_t pid : *all) {
            if (kill(pid, SIGKILL) != 0 && errno == EPERM)
                return Error(EPERM, fmt::format("its process {} belongs to another user and cannot "
                                                "be ended; end it, and use cr_restart",
                                                pid));
        }
        if (!await())
            return Error(EINTR, "the wait for the end of its processes was ended");
    }
}

} // namespace cryo::recover
