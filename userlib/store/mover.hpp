// SPDX-License-Identifier: Apache-2.0
//
// What a push and a pull have in common: connections, their limits, and the progress of all.
#pragma once

#include "store/push.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace cryo::store {

class Mover
{
  public:
    Mover(const MoveOptions &options, size_t files)
        : options_(options),
          at_once_(static_cast<unsigned>(std::clamp<size_t>(files, 1, connections())))
    {}

    unsigned connections() const { return std::max(options_.connections, 1U); }
    unsigned files_at_once() const { return at_once_; }
    unsigned parts_at_once() const { return connections() / at_once_; }
    std::atomic<bool> &ended() { return ended_; }

    Terms terms()
    {
        Terms terms{.patience = options_.patience, .ended = &ended_};
        if (options_.rate > 0)
            terms.rate = std::max<uint64_t>(options_.rate / connections(), 1);
        if (options_.progress)
            terms.moved = [this](uint64_t bytes) {
                const std::lock_guard lock(mutex_);
                moved_ = std::min(moved_ + bytes, total_);
                options_.progress(moved_, total_);
            };
        return terms;
    }
    void expect(uint64_t total) { total_ = total; }

  private:
    const MoveOptions &options_;
    unsigned at_once_;
    std::atomic<bool> ended_ = false;
    std::mutex mutex_;
    uint64_t moved_ = 0, total_ = 0;
};

} // namespace cryo::store
