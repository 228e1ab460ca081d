// SPDX-License-Identifier: Apache-2.0
//
// Makes a program save itself: the other side of libcr/self.c.
//
//     Result<SelfRequest> request = SelfRequest::of(412);
//     request->save(fd, true, deadline);  // after await(): the program is at a point
//     request->let_go();                  // the program has waited for this
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <sys/types.h>

namespace cryo::backend {

class SelfRequest
{
  public:
    // From here on this object refers to this process, even if another one gets its number later.
    static Result<SelfRequest> of(pid_t pid);

    // Listens where the program looks, also before it has registered its functions, and waits until
    // it is at a point; `deadline_ns` on the monotonic clock, 0: for ever.
    Result<void> await(uint64_t deadline_ns);
    Result<void> save(int file, bool waits, uint64_t deadline_ns);
    void let_go() const;
    void signal(int number) const;
    Result<void> check_alive() const;

  private:
    SelfRequest(pid_t pid, Fd process) : pid_(pid), process_(std::move(process)) {}
    Result<void> follow();
    void follow_soon();
    Result<std::string> digits() const;
    Result<void> listen_at(const std::string &digits);
    void accept();
    Result<bool> has_input(int fd, uint64_t deadline_ns) const;
    Error early(const Error &error) const;

    pid_t pid_;
    Fd process_, listener_, connection_;
    std::string listens_at_;                    // the digits of the address
    uint64_t follows_at_ns_ = 0, pause_ns_ = 0; // when the digits are looked at again
};

// Receives the program's answer after a restart; false: not received.
bool receive_back(int from, int &result);
void send_go(int to);

} // namespace cryo::backend
