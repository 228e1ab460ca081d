// SPDX-License-Identifier: Apache-2.0
#include "recover/leftovers.hpp"

#include "cli/place.hpp"
#include "look/former_holders.hpp"
#include "look/members.hpp"
#include "look/proc.hpp"

#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::recover {

namespace {

bool executes(pid_t pid, const std::string &file)
{
    struct stat its = {};
    struct stat wanted = {};
    return stat(file.c_str(), &wanted) == 0 &&
           stat(capture::Proc(pid).path("exe").c_str(), &its) == 0 && its.st_dev == wanted.st_dev &&
           its.st_ino == wanted.st_ino;
}

} // namespace

// A keeper is not the program's, but in a session of its own, and ends when the program has ended.
// The number of a child that was not waited for is certain, also when the keeper ends and shows no
// program any more, or when its file was replaced. What a keeper that was killed has left, a copier
// or the command that makes an image, is known by its program; so is the first daemon of a job,
// which ends when the launcher has.
bool Leftovers::is_keeper(pid_t pid) const
{
    return keepers_.contains(pid) || executes(pid, cli::library("cryo/keeper")) ||
           executes(pid, cli::library("cryo/mpi-daemon")) ||
           executes(pid, cli::command("cr_checkpoint")) ||
           executes(pid, cli::command("ompi-checkpoint"));
}

void Leftovers::add_keeper(pid_t pid)
{
    const Result<std::set<pid_t>> there = capture::children_of(getpid());
    if (there && there->contains(pid)) // else it has ended, and the number may be another's
        keepers_.insert(pid);
}

Result<Leftovers> Leftovers::begin()
{
    Result<std::set<pid_t>> there = capture::children_of(getpid());
    if (!there)
        return there.error();
    Leftovers leftovers;
    leftovers.earlier_ = std::move(*there);
    leftovers.had_earlier_ = !leftovers.earlier_.empty();
    return leftovers;
}

Result<std::set<pid_t>> Leftovers::later() const
{
    Result<std::set<pid_t>> all = capture::children_of(getpid());
    if (all)
        std::erase_if(*all, [this](pid_t pid) { return earlier_.contains(pid); });
    return all;
}

Result<std::set<pid_t>> Leftovers::all() const
{
    Result<std::set<pid_t>> all = later();
    if (all)
        std::erase_if(*all, [this](pid_t pid) { return is_keeper(pid); });
    return all;
}

Result<std::set<pid_t>> Leftovers::going_on() const
{
    Result<std::set<pid_t>> rest = all();
    const auto ends = [](pid_t pid) {
        const Result<std::string> program = capture::Proc(pid).link("exe");
        return (!program && program.error().code() == ENOENT) || restore::is_passing(pid);
    };
    if (rest)
        std::erase_if(*rest, ends);
    return rest;
}

Result<std::set<pid_t>> Leftovers::savers(bool keepers_too) const
{
    Result<std::set<pid_t>> all = later();
    const std::string commands[] = {cli::command("cr_checkpoint"), cli::command("ompi-checkpoint")};
    const auto saves = [&](pid_t pid) {
        return keepers_too ? is_keeper(pid)
                           : executes(pid, commands[0]) || executes(pid, commands[1]);
    };
    if (all)
        std::erase_if(*all, std::not_fn(saves));
    return all;
}

Result<void> Leftovers::end(const std::function<bool()> &await) const
{
    for (;;) {
        const Result<std::set<pid_t>> all = this->all();
        if (!all)
            return all.error();
        if (all->empty())
            return {};
        if (had_earlier_)
            return Error(EPERM,
                         fmt::format("process {} may not be one of its own, since cr_run had "
                                     "children when it began (end it, and use cr_restart; "
                                     "start cr_run without `exec`)",
                                     fmt::join(*all, ", ")));
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
