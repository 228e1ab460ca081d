// SPDX-License-Identifier: Apache-2.0
//
// Programs that stand still while a disk is waited for, for as long as that takes: they would
// resume by themselves if they heard nothing.
//
//     KeepWaiting waiting(members);
//     fsync(fd);
#pragma once

#include "capture/gather/everybody.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace cryo::capture {

void say_alive(const Members &members);

class KeepWaiting
{
  public:
    // The members stay as they are for as long as this lives.
    explicit KeepWaiting(const Members &members);
    KeepWaiting(const KeepWaiting &) = delete;
    KeepWaiting &operator=(const KeepWaiting &) = delete;

  private:
    std::mutex mutex_;
    std::condition_variable_any ended_;
    std::jthread thread_; // the last, so that it ends first
};

} // namespace cryo::capture
