// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint's agreement in the tree of daemons, whose root is the job's first daemon: all ranks
// stand still at one cut.
//
//     Agreement agreement(local);
//     Result<void> begun = agreement.begin();
//     switch (agreement.outcome()) { ... }
//     agreement.abandon();
#pragma once

#include "base/result.hpp"
#include "bookmark/node.hpp"

#include <string>

namespace cryo::coord {

class Daemon;

class Agreement
{
  public:
    explicit Agreement(Daemon &local) : local_(local) {}

    Result<void> begin();
    void abandon();
    void inquire(); // which ranks are missing
    void decline(); // the program wants a checkpoint, and there is none
    void finish() { finished_ = true; }
    bool is_finished() const { return finished_; } // the tree's part is over, and all ranks go on
    bool stands_still() const;                     // the job, at the cut
    bool images_are_due() const;
    bookmark::Node::Outcome outcome() const;
    std::string reason() const; // of outcome abandoned

  private:
    Daemon &local_;
    bool asked_ = false; // the tree was asked for it
    bool finished_ = false;
};

} // namespace cryo::coord
