// SPDX-License-Identifier: Apache-2.0
//
// Takes the turns of processes (session/turn.hpp), and waits for another checkpoint that has one of
// them.
//
//     TurnTaking turn_taking(options, in_scope, roster, merging);
//     turn_taking.begin();
//     std::vector<Turn> turns;
//     Result<bool> ours = turn_taking.take(processes, turns);
//     if (ours && !*ours)
//         ... look the processes up again, from the start if turn_taking.has_stepped_back() ...
#pragma once

#include "capture/gather/in_scope.hpp"
#include "capture/gather/merging.hpp"
#include "capture/gather/roster.hpp"
#include "capture/process/options.hpp"
#include "capture/session/turn.hpp"

#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

class TurnTaking
{
  public:
    TurnTaking(const CheckpointOptions &options, InScope &in_scope, Roster &roster,
               Merging &merging)
        : options_(options), in_scope_(in_scope), roster_(roster), merging_(merging)
    {}
    TurnTaking(const TurnTaking &) = delete;
    TurnTaking &operator=(const TurnTaking &) = delete;

    void begin() { has_stepped_back_ = false; }
    // False: another checkpoint had one of the turns, so the processes must be looked up again. The
    // turns taken so far are released before waiting, so that no other checkpoint waits for them
    // meanwhile.
    Result<bool> take(const std::vector<Relation> &fresh, std::vector<Turn> &turns);
    // Since begin(), everything was given up for another checkpoint.
    bool has_stepped_back() const { return has_stepped_back_; }

  private:
    Result<void> await_turn(pid_t pid, const std::string &address, Turn turn);
    Result<void> step_back(const std::string &address);

    const CheckpointOptions &options_;
    InScope &in_scope_;
    Roster &roster_;
    Merging &merging_;
    bool has_stepped_back_ = false;
};

} // namespace cryo::capture
