// SPDX-License-Identifier: Apache-2.0
//
// What follows from the end of a supervised program. A pure state machine: it sees no process and
// no file, so that all its answers are tested.
//
//     Decision decision(policy);
//     Action next = decision.after({.wait_status = SIGKILL}, {"context.000001", "context.000002"});
//     // restart from context.000002
#pragma once

#include "recover/policy.hpp"

#include <string>
#include <vector>

namespace cryo::recover {

struct End {
    int wait_status = 0;
    bool was_back = true;        // false: a restart has failed before the program ran
    bool left_others = false;    // of a launcher: ranks were there still
    bool was_asked = false;      // the user has told the program to end
    bool can_begin_again = true; // its standard input is as it was at the beginning
};

enum class Do {
    end,         // as the program has ended
    restart,     // from `image`
    begin_again, // from the beginning
    give_up,     // `why` says so
};

struct Action {
    Do what = Do::end;
    std::string image = {};
    std::vector<std::string> abandoned = {}; // images that nothing may come from any more
    std::string why = {};
};

// "was killed by SIGKILL", "ended with status 75"
std::string end_text(int wait_status);

class Decision
{
  public:
    explicit Decision(Policy policy) : policy_(std::move(policy)) {}

    bool is_fault(const End &end) const;
    // `images`: that are complete and from which nothing keeps the program from coming back, the
    // oldest first.
    Action after(const End &end, const std::vector<std::string> &images);

  private:
    Action from_an_image(const std::vector<std::string> &images);
    Action from_the_beginning(const End &end);

    Policy policy_;
    std::string from_;   // the image that the program comes from; "": none
    unsigned times_ = 0; // it was brought back from there
};

} // namespace cryo::recover
