// SPDX-License-Identifier: Apache-2.0
//
// From the request to the moment when everybody stands still: who is meant, whose turn it is, their
// callbacks, and the processes that these take in.
//
//     Gathering gathering(412, options, common);
//     if (Result<void> stopped = gathering.stop_everybody(); !stopped)
//         gathering.give_up(stopped.error().code());
//     ... gathering.members() ...
//
// All are asked before the first answer is waited for, and all of a step are through with it before
// the first begins the next: so their callbacks may wait for one another.
#pragma once

#include "capture/bystanders.hpp"
#include "capture/member.hpp"

#include <set>

namespace cryo::capture {

class Gathering
{
  public:
    Gathering(pid_t id, const CheckpointOptions &options, Common &common)
        : id_(id), options_(options), common_(common),
          bystanders_(options), scopes_{{options.scope, id}}
    {}

    Result<void> stop_everybody();
    // There will be no image: the programs, and their callbacks, are told why.
    void give_up(int why);

    // Parents before their children.
    std::vector<std::unique_ptr<Member>> &members() { return members_; }
    const std::vector<Relation> &zombies() const { return zombies_; }
    // When the first of them was asked to stop, on the monotonic clock: until then all ran.
    uint64_t begun() const { return begun_; }
    // Why others are not among them.
    const std::vector<std::string> &left_out() const { return left_out_; }
    // Asked for as a process, not as one of a tree or the like.
    bool is_by_itself(pid_t pid) const;
    // All who are in the image, those that have ended included, and who were left out.
    std::set<pid_t> known() const;
    // The process that was asked for; another one where that left itself out.
    pid_t root() const;

  private:
    struct Wanted {
        image::Scope scope;
        pid_t id;
    };
    Result<std::vector<Relation>> everybody();
    Result<std::vector<Relation>> fresh();
    Result<bool> is_left_out(const Relation &relation);
    Result<bool> is_meant_still(const Relation &relation);
    Result<bool> take_turns(const std::vector<Relation> &fresh, std::vector<Turn> &turns);
    Result<void> await_turn(pid_t pid, const Turn &turn);
    Result<void> step_back(const Turn &turn);
    Result<void> gather();
    Result<bool> ask_fresh();
    Result<void> ask(const Relation &relation, Turn turn, EarlyLook look);
    std::vector<EarlyLook> look_early(const std::vector<Relation> &fresh) const;
    Result<void> hear(size_t number);
    Result<void> await_prepared();
    Result<void> check_silent(size_t number);
    bool went_away(const Error &error);
    void drop(size_t number);
    agent::RequestInfo request() const;

    // A member that was asked to prepare and is not through with it.
    struct Asked {
        uint64_t since = 0;
        bool accepted = false;
    };

    pid_t id_;
    const CheckpointOptions &options_;
    Common &common_;
    Bystanders bystanders_;
    std::vector<Wanted> scopes_; // the request's own, and what callbacks have added
    std::vector<std::unique_ptr<Member>> members_;
    std::map<pid_t, Asked> asked_;
    std::set<pid_t> to_stop_; // prepared, and running still
    std::vector<Relation> zombies_;
    std::set<pid_t> omitted_; // left out, or ended
    int gone_ = 0;
    std::vector<std::string> left_out_;
    bool stepped_back_ = false;
    uint64_t begun_ = 0;
};

} // namespace cryo::capture
