// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/keep_waiting.hpp"

#include <chrono>

namespace cryo::capture {

void say_alive(const Members &members)
{
    for (const auto &member : members)
        member->process().agent().say_alive();
}

KeepWaiting::KeepWaiting(const Members &members)
    : thread_([this, &members](const std::stop_token &end) {
          constexpr std::chrono::milliseconds seldom(250); // the limit is a second at least
          std::unique_lock lock(mutex_);
          while (!end.stop_requested()) {
              say_alive(members);
              ended_.wait_for(lock, end, seldom, [] { return false; });
          }
      })
{}

} // namespace cryo::capture
