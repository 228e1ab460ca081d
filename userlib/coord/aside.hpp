// SPDX-License-Identifier: Apache-2.0
//
// Runs work that may take long, such as waiting for a disk, beside a loop that must go on:
//
//     aside.emplace(loop, [writer] { return writer->commit(images); },
//                   [this](Result<void> done) { ... });        // in the loop
//
// The destructor waits for the end of the work, and then the callback
// is not called. If no thread can be made, the loop waits for the work.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "coord/loop.hpp"

#include <cstdint>
#include <functional>
#include <thread>

namespace cryo::coord {

class Aside
{
  public:
    using Work = std::function<Result<void>()>;
    using Then = std::function<void(const Result<void> &)>;

    Aside(Loop &loop, Work work, Then then);
    ~Aside();
    Aside(const Aside &) = delete;
    Aside &operator=(const Aside &) = delete;

  private:
    void stop();
    void ended();

    Loop &loop_;
    Fd over_; // readable when the work has ended
    Result<void> result_;
    Then then_;
    std::thread thread_;
    uint64_t timer_ = 0; // without a thread: delivers the result
};

} // namespace cryo::coord
