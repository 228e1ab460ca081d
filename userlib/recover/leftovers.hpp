// SPDX-License-Identifier: Apache-2.0
//
// What a program leaves when its first process has ended. The supervisor is a subreaper: each
// process of the program whose parent has ended becomes the supervisor's child. A child that was
// not waited for keeps its number, so it is known for certain whom a signal reaches; nobody else is
// ever sent one.
//
//     Result<Leftovers> leftovers = Leftovers::begin();      // before the program
//     leftovers->end([&] { return await_child(); });
#pragma once

#include "base/result.hpp"

#include <functional>
#include <set>
#include <sys/types.h>

namespace cryo::recover {

class Leftovers
{
  public:
    // Notes the children that the caller has already: `exec` has left them to it, as in
    // `sh -c 'daemon & exec cr_run ...'`, and they are not the program's.
    static Result<Leftovers> begin();

    // To be told of each child that was waited for: its number may come again.
    void waited_for(pid_t pid)
    {
        earlier_.erase(pid);
        keepers_.erase(pid);
    }
    // Of the program, as it was launched.
    void add_keeper(pid_t pid);
    // A child that the supervisor has for itself, and ends itself.
    void add_own(pid_t pid) { earlier_.insert(pid); }

    // Children that have come since, without keepers, which end by themselves.
    Result<std::set<pid_t>> all() const;

    // Children whose images may still come: the command of a keeper that was killed, and keepers.
    Result<std::set<pid_t>> savers(bool keepers_too) const;

    // Children of these that go on without the first one. A copy from which an image is written is
    // none, nor is one that is ending: without memory of its own it has no program any more.
    Result<std::set<pid_t>> going_on() const;

    // Ends them, their children and so on. `await` returns when a child has been waited for;
    // false: it is no longer worth it. EPERM: one that belongs to another user does not end, or may
    // be a process that an earlier child has left.
    Result<void> end(const std::function<bool()> &await) const;

  private:
    bool is_keeper(pid_t pid) const;
    Result<std::set<pid_t>> later() const;

    std::set<pid_t> earlier_;
    std::set<pid_t> keepers_;
    bool had_earlier_ = false;
};

} // namespace cryo::recover
