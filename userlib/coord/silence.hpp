// SPDX-License-Identifier: Apache-2.0
//
// Which daemons say nothing while a checkpoint is made, that of the job's first node among them. A
// checkpoint must not wait endlessly for them, because programs are stopped meanwhile. So they are
// asked regularly.
//
//     Silence silence(members);
//     silence.asked();                               // whenever they are asked
//     if (const auto why = silence.why()) ...        // one was stopped or busy for too long
#pragma once

#include "coord/members.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace cryo::coord {

class Silence
{
  public:
    using Clock = std::chrono::steady_clock;

    explicit Silence(const Members &members) : members_(members) {}
    void asked() { asked_ = Clock::now(); }
    Clock::duration since_asked() const { return Clock::now() - asked_; }
    std::chrono::duration<double> since_begun() const { return Clock::now() - begun_; }
    std::vector<uint32_t> silent() const;
    // Ranks of such a daemon may have resumed.
    std::optional<std::string> why() const;

  private:
    const Members &members_;
    Clock::time_point begun_ = Clock::now();
    Clock::time_point asked_ = begun_;
};

} // namespace cryo::coord
