// SPDX-License-Identifier: Apache-2.0
//
// Which daemons say nothing while a checkpoint is made, that of the job's first node among them. A
// checkpoint must not wait endlessly for them, because programs are stopped meanwhile. So they are
// asked regularly.
//
//     Silence silence(members, 3);
//     silence.asked();                               // whenever they are asked
//     if (const auto why = silence.why()) ...        // one was stopped or busy for too long
#pragma once

#include "coord/members.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cryo::coord {

class Silence
{
  public:
    using Clock = std::chrono::steady_clock;

    // Of that checkpoint: an answer to a question of another one is none.
    Silence(const Members &members, uint64_t checkpoint)
        : members_(members), numbers_(checkpoint << bits_of_numbers)
    {}
    // The daemons are told of the checkpoint, which is a question, too: no rank waits yet.
    void begin() { asked_ = Clock::now(); }
    uint64_t asked(); // the number of the question, with which joined answers come
    std::optional<Clock::time_point> when_asked(uint64_t number) const; // none: too long ago
    Clock::duration since_asked() const { return Clock::now() - asked_; }
    std::chrono::duration<double> since_begun() const { return Clock::now() - begun_; }
    std::vector<uint32_t> silent() const;
    // Ranks of such a daemon may have resumed.
    std::optional<std::string> why() const;

  private:
    bool is_silent(const Member &one) const;
    bool is_cut_off(uint32_t number) const;

    const Members &members_;
    Clock::time_point begun_ = Clock::now();
    Clock::time_point asked_ = begun_;
    static constexpr int bits_of_numbers = 32;
    uint64_t numbers_;
    std::map<uint64_t, Clock::time_point> times_; // of the last questions
};

} // namespace cryo::coord
