// SPDX-License-Identifier: Apache-2.0
//
// Keeps the image from which a supervised program would come back in the memory of this node
// (recover = "transfer" in a policy), so that a restart reads nothing from a disk or a server. A
// child of the supervisor maps its files, and locks them where it may; it ends with the supervisor.
//
//     Standby standby(policy.standby);
//     const pid_t child = standby.hold("context.000007", find, mask);       // at each new image
//     ... poll(standby.fd()) ...
//     if (standby.read())                    // or standby.waited_for(pid, status)
//         teller.say(standby.told());        // held() and bytes() are new
//     standby.end();
//
// One image at a time: the one before is let go first, so that both never take memory at once.
#pragma once

#include "base/result.hpp"
#include "recover/report.hpp"
#include "recover/subject.hpp"

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>

namespace cryo::recover {

// What a restart from the image reads; called in the child, as that may take long.
using FindReads = std::function<Result<Reads>()>;

class Standby
{
  public:
    // `most`: bytes of memory; none: nothing is held.
    explicit Standby(std::optional<uint64_t> most) : most_(most) {}

    bool is_wanted() const { return most_.has_value(); }
    // The child's id; 0: there is none. `mask`: what is blocked in it.
    pid_t hold(const std::string &name, const FindReads &find, const sigset_t &mask);
    int fd() const { return word_.fd(); } // −1: it has nothing to say any more
    // False: nothing is new.
    bool read();
    bool waited_for(pid_t pid, int wait_status);
    void end();

    const std::string &held() const { return held_; } // the image; "": none
    uint64_t bytes() const { return bytes_; }
    const std::string &told() const { return told_; } // for the user; "": nothing

  private:
    void take(const nlohmann::json &line);
    void lack(const std::string &why);

    std::optional<uint64_t> most_;
    pid_t pid_ = 0; // 0: there is no child
    Report word_;
    std::string name_; // what it is to hold
    std::string held_;
    uint64_t bytes_ = 0;
    std::string told_;
    bool lacks_ = false;        // and this has been told
    bool has_remarked_ = false; // what a held image lacks
};

} // namespace cryo::recover
