// SPDX-License-Identifier: Apache-2.0
//
// The members of a checkpoint in the making, and how far each has come: preparing, to be stopped,
// or stopped.
//
//     Roster roster;
//     roster.add(std::move(member));              // it has been asked to prepare
//     roster.note_answer(pid);                    // its agent is at it
//     roster.note_prepared(pid);                  // now roster.is_to_stop(pid)
//     roster.set_standing(); roster.note_stopping(pid);
//     ... roster.all() are saved ...
#pragma once

#include "capture/gather/everybody.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sys/types.h>

namespace cryo::capture {

class Roster
{
  public:
    // Parents before their children.
    Members &all() { return members_; }
    const Members &all() const { return members_; }

    // A member that has been asked to prepare.
    void add(std::unique_ptr<Member> member);
    // A member that another checkpoint has asked. `answer`: as has_answered(); none: it has
    // prepared.
    void take_in(std::unique_ptr<Member> member, std::optional<bool> answer);
    // The process went away, or leaves itself out.
    void remove(size_t number);
    // Another checkpoint has the members now, or they are given up.
    void clear();

    // Asked to prepare, and not finished with that.
    bool is_preparing(pid_t pid) const { return asked_.count(pid) != 0; }
    bool has_preparing() const { return !asked_.empty(); }
    // Preparing, and the agent has accepted that.
    bool has_answered(pid_t pid) const;
    void note_answer(pid_t pid) { asked_[pid] = true; }
    void note_prepared(pid_t pid);
    // Prepared, and still running.
    bool is_to_stop(pid_t pid) const { return to_stop_.count(pid) != 0; }
    void note_stopping(pid_t pid) { to_stop_.erase(pid); }
    // Some are stopped, or about to be.
    bool is_standing() const { return is_standing_; }
    void set_standing() { is_standing_ = true; }

    // An early look that fails makes us start again, but callbacks run, and guests join, only once.
    void forget_early_looks();
    // Whether the process was started by a member since that was asked to prepare.
    bool has_begun(pid_t pid) const;
    // Whether a checkpoint that waits for one of them holds others, and cannot be merged.
    bool is_needed() const;
    // Tells the programs and their callbacks that there will be no image, and why.
    void give_up(int why);

  private:
    Members members_;
    std::map<pid_t, bool> asked_; // preparing → whether it has answered
    std::set<pid_t> to_stop_;
    bool is_standing_ = false;
};

} // namespace cryo::capture
