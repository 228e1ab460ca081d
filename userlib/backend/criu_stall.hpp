// SPDX-License-Identifier: Apache-2.0
//
// Recognises a criu that waits for ever: before release 3.19 criu may miss that a process of a
// restore has failed, and wait for it. Then its log has an error, and neither criu nor its children
// do anything.
//
//     CriuStall stall(criu, root, log);
//     while (!has_ended(criu) && log_has_error())
//         if (stall.is_over())
//             stall.end();
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::backend {

class CriuStall
{
  public:
    // `root`: the first process that is restored, which becomes our child.
    CriuStall(pid_t criu, pid_t root, std::string log)
        : criu_(criu), root_(root), log_(std::move(log))
    {}
    bool is_over(); // true: nothing has been done for a while
    void end() const;

  private:
    static constexpr std::chrono::seconds longest{5};
    std::vector<pid_t> processes() const;

    pid_t criu_, root_;
    std::string log_;
    uint64_t done_ = 0;
    std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

} // namespace cryo::backend
