// SPDX-License-Identifier: Apache-2.0
//
// Makes a program save itself: the other side of libcr/self.c.
//
//     Result<SelfRequest> request = SelfRequest::listen(412);
//     request->save(fd, true, deadline);  // after await(): the program is at a point
//     request->let_go();                  // the program has waited for this
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <sys/types.h>

namespace cryo::backend {

class SelfRequest
{
  public:
    static Result<SelfRequest> listen(pid_t pid);

    // Waits until the program is at a point; `deadline_ns` on the monotonic clock, 0: for ever.
    Result<void> await(uint64_t deadline_ns);
    Result<void> save(int file, bool waits, uint64_t deadline_ns);
    void let_go() const;
    void signal(int number) const;

  private:
    SelfRequest(pid_t pid, Fd process, Fd listener)
        : pid_(pid), process_(std::move(process)), listener_(std::move(listener))
    {}
    Result<void> await_input(int fd, uint64_t deadline_ns) const;

    pid_t pid_;
    Fd process_, listener_, connection_;
};

// Receives the program's answer after a restart; false: not received.
bool receive_back(int from, int &result);
void send_go(int to);

} // namespace cryo::backend
