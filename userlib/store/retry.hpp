// SPDX-License-Identifier: Apache-2.0
//
// How long one request is repeated that fails for causes that pass: a server that is started again,
// that is overloaded, a network that is interrupted.
//
//     Retry retry(patience);
//     while (fails()) {
//         if (!retry.wait())
//             return retry.given_up(error);
//     }
#pragma once

#include "base/result.hpp"

#include <chrono>

namespace cryo::store {

class Retry
{
  public:
    explicit Retry(std::chrono::seconds patience) : patience_(patience) {}

    // Rests a while, longer each time. False: no patience is left.
    bool wait();
    void progressed(); // what comes next fails for the first time
    Error given_up(const Error &error) const;

  private:
    std::chrono::seconds patience_;
    unsigned failures_ = 0;
    std::chrono::steady_clock::time_point first_ = {};
};

// The pause after so many failures in a row, without chance: 0.2 s, doubled each time, up to 5 s.
std::chrono::milliseconds pause_after_failures(unsigned failures);

} // namespace cryo::store
