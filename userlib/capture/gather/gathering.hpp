// SPDX-License-Identifier: Apache-2.0
//
// Controls a checkpoint from the request to the moment when all members are stopped: the processes
// in scope, their turns (turn.hpp), their callbacks, and the processes that callbacks add.
//
//     Gathering gathering(412, options, common);
//     if (Result<void> stopped = gathering.stop_everybody(); !stopped)
//         gathering.give_up(stopped.error().code());
//     ... gathering.members() ...
//
// All processes are asked before the first answer is awaited, and all finish a step before the
// first begins the next, so that their callbacks may wait for one another.
#pragma once

#include "capture/gather/in_scope.hpp"
#include "capture/gather/merging.hpp"
#include "capture/gather/roster.hpp"
#include "capture/gather/turn_taking.hpp"

#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

class Gathering
{
  public:
    Gathering(pid_t id, const CheckpointOptions &options, Common &common)
        : id_(id), options_(options), common_(common), in_scope_(id, options),
          merging_(id, options, common, in_scope_, roster_),
          turn_taking_(options, in_scope_, roster_, merging_)
    {}

    Result<void> stop_everybody();
    // As in Merging.
    bool has_joined() const { return merging_.has_joined(); }
    Result<Outcome> share(std::unique_ptr<image::Sink> sink)
    {
        return merging_.share(std::move(sink));
    }
    void tell_guests(const Result<Outcome> &done) { merging_.tell_guests(done); }
    void send_guests_away() { merging_.send_guests_away(); }
    // Waits until the callbacks of all members, which continue after the image, have ended.
    Result<void> callbacks_done();
    // Tells the programs and their callbacks that there will be no image, and why.
    void give_up(int why) { roster_.give_up(why); }

    // Parents before their children.
    Members &members() { return roster_.all(); }
    const std::vector<Relation> &zombies() const { return in_scope_.zombies(); }
    // If `d` started this command, adds the SIGCHLD that reports this command's successful end.
    void tell_of_our_end(Description &d) const { in_scope_.tell_of_our_end(d); }
    // When the first member was asked to stop, on the monotonic clock: until then all ran.
    uint64_t begun() const { return begun_; }
    // Why other processes are not among the members.
    const std::vector<std::string> &left_out() const { return in_scope_.left_out(); }
    // Requested as a single process, not as part of a tree or the like.
    bool is_by_itself(pid_t pid) const { return in_scope_.is_by_itself(pid); }
    // All processes in the image, including zombies, and those left out.
    std::set<pid_t> known() const { return in_scope_.known(roster_.all()); }
    // The requested process, or the first member if that one left itself out.
    pid_t root() const { return in_scope_.root(roster_.all()); }

  private:
    Result<void> gather();
    Result<bool> ask_fresh();
    Result<void> ask(std::unique_ptr<Member> member);
    std::vector<std::unique_ptr<Member>> find(const std::vector<Relation> &fresh,
                                              std::vector<Turn> turns) const;
    Result<void> hear(size_t number);
    Result<void> await_prepared();
    Result<void> check_silent(size_t number);
    Result<void> check_callbacks(const Member &member, uint64_t since) const;
    bool went_away(const Error &error);
    agent::RequestInfo request() const;

    pid_t id_;
    const CheckpointOptions &options_;
    Common &common_;
    InScope in_scope_;
    Roster roster_;
    Merging merging_;
    TurnTaking turn_taking_;
    int gone_ = 0;
    uint64_t begun_ = 0;
};

} // namespace cryo::capture
