// SPDX-License-Identifier: Apache-2.0
//
// Ends a wait of a simulation in which nothing changes any more, and says what was waited for. A
// loop in which nothing happens would wait for ever, and tell nobody why.
//
//     StandstillWatch watch(loop, 20'000, "a checkpoint", [&] { return "n4 waits for rank 7"; });
//     watch.run();         // as loop.run(); throws where looks in a row have found the same words
#pragma once

#include "coord/loop.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace cryo::coord::sim {

class StandstillWatch
{
  public:
    // What is waited for, in words that change as long as anything happens.
    using Look = std::function<std::string()>;

    StandstillWatch(Loop &loop, int64_t every_ms, std::string what, Look look);
    ~StandstillWatch();
    StandstillWatch(const StandstillWatch &) = delete;
    StandstillWatch &operator=(const StandstillWatch &) = delete;

    void run(); // the loop, until it is stopped; may be called again
    const std::string &what() const { return what_; }

  private:
    void look_later();
    bool stands_still() const { return same_ >= most_same; }

    static constexpr int most_same = 2; // looks that find what the one before has found

    Loop &loop_;
    int64_t every_ms_;
    std::string what_;
    Look look_;
    std::string found_;
    int same_ = 0;
    uint64_t timer_ = 0;
};

} // namespace cryo::coord::sim
