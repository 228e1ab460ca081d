// SPDX-License-Identifier: Apache-2.0
//
// What follows from the end of a supervised program. A pure state machine: it sees no process and
// no file, so that all its answers are tested.
//
//     Decision decision(policy);
//     Action next = decision.after({.wait_status = SIGKILL},
//                                  {.images = {{"context.000001", 1}, {"context.000002", 2}},
//                                   .made = 2});
//     // restart from context.000002
#pragma once

#include "recover/policy.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cryo::recover {

struct End {
    int wait_status = 0; // of the program; of a job's rank that has failed
    // Of a job, as the launcher has ended itself: its exit status may be the rank's own.
    std::optional<int> launcher = {};
    bool was_back = true;        // false: a restart has failed before the program ran
    bool may_pass = false;       // for a reason outside of the image, such as an id that is taken
    bool left_others = false;    // of a launcher: ranks were there still, or lost before its end
    bool is_unfinished = false;  // likewise: it ended with 0, and not all ranks had done their part
    bool was_asked = false;      // the user has told the program to end
    bool can_begin_again = true; // its standard input is as it was at the beginning
};

struct Image {
    std::string name;
    uint64_t made = 0; // how many there had been with it
    bool operator==(const Image &) const = default;
};

// From what the program can come back.
struct Offer {
    std::vector<Image> images = {}; // complete ones, the oldest first
    uint64_t made = 0;              // how many there have been until now
    bool has_others = false;        // files with names of images that no keeper has listed
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
    // Images that nothing may come from any more, the newest first.
    std::vector<std::string> abandoned = {};
    std::string why = {};
};

// "was killed by SIGKILL", "ended with status 75"
std::string end_text(int wait_status);
// Whether a restart that ends with this status, the errno of its error, has not failed for the
// image's sake.
bool may_pass(int wait_status);

class Decision
{
  public:
    explicit Decision(Policy policy) : policy_(std::move(policy)) {}

    bool is_fault(const End &end) const;
    Action after(const End &end, const Offer &there);

  private:
    Action from_an_image(const End &end, const Offer &there);
    Action from_the_beginning(const End &end);

    Policy policy_;
    std::string from_;   // the image that the program comes from; "": none
    unsigned times_ = 0; // it was brought back from there
    uint64_t made_ = 0;  // images, when it was brought back
    // After a fall to an older image: how many have to be made until the program is as far as it
    // was, and the oldest image from which it was tried since. The next fall goes below that, so
    // that a program that always ends at the same place ends for good.
    uint64_t lead_ = 0;
    uint64_t floor_ = UINT64_MAX;
};

} // namespace cryo::recover
