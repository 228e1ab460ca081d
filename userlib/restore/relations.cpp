// SPDX-License-Identifier: Apache-2.0
#include "restore/relations.hpp"

#include "restore/choosing_ids.hpp"
#include "restore/daemon.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <map>
#include <sched.h>
#include <unistd.h>
#include <utility>

namespace cryo::restore {

namespace {

constexpr uint32_t known_sharing = CLONE_FS | CLONE_SYSVSEM | static_cast<uint32_t>(CLONE_IO);

class Relations
{
  public:
    Relations(const TreeMembers &all, const RestartOptions &options) : all_(all), options_(options)
    {}
    Result<std::vector<Newborn>> relate();

  private:
    bool is_root(const TreeMember &one) const
    {
        return number_of(all_, one.member->ppid) == nobody;
    }
    bool has_own_terminal(const TreeMember &leader) const;
    bool is_daemon(const TreeMember &leader) const;
    Result<int> session_of(const TreeMember &one) const;
    int group_of(const TreeMember &one);
    Result<void> check_sharing(const TreeMember &one) const;
    void give_parents();

    const TreeMembers &all_;
    const RestartOptions &options_;
    std::vector<Newborn> kin_;          // one for each of all_, and then further ones
    std::map<uint32_t, int> stand_ins_; // group → number
};

// Whether the session's terminal is one that the tree has made.
bool Relations::has_own_terminal(const TreeMember &leader) const
{
    const std::string_view tty = leader.saved.process.tty;
    return leader.image && leader.member->sid == leader.member->pid && !tty.empty() &&
           std::ranges::any_of(
               all_.front()->saved.of<image::Terminal>(), [&](const auto &terminal) {
                   return tty == fmt::format("/dev/pts/{}", terminal.second.pty_index);
               });
}

bool Relations::is_daemon(const TreeMember &leader) const
{
    return options_.daemons_apart && leader.image && was_daemon(leader.saved, all_.front()->saved);
}

// A session that the root was in, but did not make, is cr_restart's now; so is one that the root
// has made with a terminal, unless that is the tree's, which it would lose.
Result<int> Relations::session_of(const TreeMember &one) const
{
    const uint32_t sid = one.member->sid;
    const int leader = number_of(all_, sid);
    const auto stays = [&](const TreeMember &first) {
        return options_.restore_sid || !is_root(first) || has_own_terminal(first) ||
               is_daemon(first);
    };
    if (leader != nobody && stays(*all_[static_cast<size_t>(leader)]))
        return leader;
    for (const auto &other : all_) {
        if (!is_root(*other) || other->member->sid != sid)
            continue;
        if (options_.restore_sid && sid != static_cast<uint32_t>(getsid(0)))
            return Error(EPERM, fmt::format("process {} was in the session {}, which was not its "
                                            "own: --no-restore-sid leaves it in that of cr_restart",
                                            other->member->pid, sid));
        return nobody;
    }
    return Error(ENOTSUP, fmt::format("process {} is in the session {}, whose leader has ended",
                                      one.member->pid, sid));
}

int Relations::group_of(const TreeMember &one)
{
    const uint32_t pgid = one.member->pgid;
    const int leader = number_of(all_, pgid);
    const bool saved_one = options_.restore_pgid || options_.restore_sid ||
                           has_own_terminal(*all_.front()) || is_daemon(*all_.front());
    if (leader != nobody && (saved_one || !is_root(*all_[static_cast<size_t>(leader)])))
        return leader;
    for (const auto &other : all_) {
        if (is_root(*other) && other->member->pgid == pgid &&
            (!saved_one || pgid == static_cast<uint32_t>(getpgrp())))
            return nobody;
    }
    if (leader != nobody)
        return leader;
    // The group's leader has ended, and the group lives on: a stand-in has to make it.
    const auto [place, fresh] =
        stand_ins_.emplace(pgid, static_cast<int>(all_.size() + stand_ins_.size()));
    return place->second;
}

// The parent makes it, so as to share with it.
Result<void> Relations::check_sharing(const TreeMember &one) const
{
    const uint32_t shares = one.saved.process.shares;
    if ((shares & ~known_sharing) != 0)
        return Error(ENOTSUP,
                     fmt::format("process {} shares with its parent what this version does "
                                 "not know (clone flags {:#x})",
                                 one.member->pid, shares & ~known_sharing));
    const int parent = number_of(all_, one.member->ppid);
    if (shares != 0 && (parent == nobody || !all_[static_cast<size_t>(parent)]->image))
        return Error(EINVAL, fmt::format("process {} shares with its parent (clone flags {:#x}), "
                                         "which is not in the image",
                                         one.member->pid, shares));
    return {};
}

Result<std::vector<Newborn>> Relations::relate()
{
    std::map<int, int> session_of_stand_in;
    for (const auto &one : all_) {
        if (options_.own_pid_namespace && one->member->pid == 1)
            return Error(EEXIST, fmt::format("{}: the process had the id 1, which in a pid "
                                             "namespace of its own is that of cr_restart; "
                                             "--no-restore-pid gives a new one",
                                             all_.front()->image->name()));
        Newborn kin;
        kin.parent = number_of(all_, one->member->ppid);
        kin.pid = options_.keeps(one->member->pid) ? static_cast<pid_t>(one->member->pid) : 0;
        for (const image::Thread &thread : one->saved.threads())
            if (options_.keeps(thread.tid))
                kin.threads.push_back(static_cast<pid_t>(thread.tid));
        const bool has_new_id = !options_.keeps(one->member->pid) && is_root(*one);
        const uint32_t pgid = has_new_id && options_.restore_pgid ? one->member->pgid : 0;
        const uint32_t sid = has_new_id && options_.restore_sid ? one->member->sid : 0;
        if (Result<void> unused = check_unused(pgid, sid); !unused)
            return unused.error();
        Result<int> session = session_of(*one);
        if (!session)
            return session.error();
        kin.session = *session;
        kin.group = group_of(*one);
        if (kin.group >= static_cast<int>(all_.size()))
            session_of_stand_in[kin.group] = kin.session;
        if (Result<void> shared = check_sharing(*one); !shared)
            return shared.error();
        kin.shares = one->saved.process.shares;
        kin.zombie = !one->image;
        kin.wait_status = one->member->wait_status;
        kin_.push_back(std::move(kin));
    }
    for (const auto &[pgid, number] : stand_ins_) {
        Newborn kin;
        kin.parent = session_of_stand_in[number]; // the session's leader makes it
        kin.session = kin.parent;
        kin.group = number;
        kin.pid = options_.keeps(pgid) ? static_cast<pid_t>(pgid) : 0;
        kin.stand_in = true;
        kin_.resize(std::max(kin_.size(), static_cast<size_t>(number) + 1));
        kin_[static_cast<size_t>(number)] = std::move(kin);
    }
    give_parents();
    return std::move(kin_);
}

// Gives parents to processes whose parent is not in the image. A member of a restored
// session has to be made in it: its parent is a stand-in that ends before the session
// leader's execve, and then cr_restart. A child of init becomes one again: a foster
// parent leaves it when all are complete. Not so the first process, as cr_restart reports
// how it ends, nor one that gets a signal when its parent ends, as it would get it then.
void Relations::give_parents()
{
    std::map<int, int> late, foster; // session → number
    const auto find = [&](std::map<int, int> &list, int session, int parent) {
        const auto [place, fresh] = list.emplace(session, static_cast<int>(kin_.size()));
        if (fresh) {
            Newborn kin;
            kin.parent = parent;
            kin.session = session;
            kin.stand_in = &list == &late;
            kin.foster = &list == &foster;
            kin_.push_back(std::move(kin));
        }
        return place->second;
    };
    for (size_t i = 1; i < all_.size(); i++) {
        if (kin_[i].parent != nobody)
            continue;
        const int own = static_cast<int>(i);
        const int session = kin_[i].session == own ? nobody : kin_[i].session;
        const bool dies_with_it =
            std::ranges::any_of(all_[i]->saved.threads(),
                                [](const auto &thread) { return thread.parent_death_signal != 0; });
        int parent = session == nobody ? nobody : find(late, session, session);
        if (all_[i]->member->ppid == 1 && !kin_[i].zombie && !dies_with_it)
            parent = find(foster, session, parent);
        kin_[i].parent = parent;
    }
}

} // namespace

int number_of(const TreeMembers &all, uint32_t pid)
{
    for (size_t i = 0; i < all.size(); i++) {
        if (all[i]->member->pid == pid)
            return static_cast<int>(i);
    }
    return nobody;
}

Result<std::vector<Newborn>> relate(const TreeMembers &all, const RestartOptions &options)
{
    return Relations(all, options).relate();
}

} // namespace cryo::restore
