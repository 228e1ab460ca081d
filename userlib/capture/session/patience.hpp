// SPDX-License-Identifier: Apache-2.0
//
// Limits on waiting for others. A program may be hostile, stopped or hung, and a command that waits
// for it, perhaps root's, must terminate.
//
//     Patience patience(10'000'000'000);
//     while (read(fd, ...) < 0 && errno == EAGAIN)
//         if (!patience.await(fd))
//             return Error(EBUSY, "... does not go on");
#pragma once

#include "base/result.hpp"
#include "protocol/agent.hpp"

#include <cstdint>

namespace cryo::capture {

// How long a program may be stopped, or be waited for, without any progress.
constexpr uint64_t default_silence_ns = uint64_t{agent::default_silence_ms} * 1'000'000;
// For a process that has not begun to answer or to stop: it may be in the kernel (vfork).
constexpr uint64_t first_answer_ns = 5'000'000'000;
// Longer: callbacks are the program's own, and it runs meanwhile; so do concurrent checkpoints.
constexpr uint64_t callbacks_limit_ns = 300'000'000'000;
// A wait for another process wakes up this often to see whether that process, or --time, has ended.
constexpr int look_again_ms = 200;

// For data that is read in parts: a peer must not keep us waiting by sending single bytes.
class Patience
{
  public:
    explicit Patience(uint64_t limit_ns) : limit_ns_(limit_ns) {}

    // Reports that so many bytes have arrived.
    void note(uint64_t bytes);
    // Starts the limit again for the next wait.
    void begin_anew() { waited_ns_ = bytes_ = 0; }
    // Waits until the descriptor is readable. False: too little has come for too long.
    bool await(int fd);

  private:
    uint64_t limit_ns_;
    uint64_t waited_ns_ = 0; // our own work in between does not count
    uint64_t bytes_ = 0;
};

// ETIME if the deadline on the monotonic clock (0: none) has passed.
Result<void> check_deadline(uint64_t deadline_ns);

// Waits until the descriptor is readable; false: it was not within the limit.
bool await_readable(int fd, uint64_t limit_ns);
// Limits how long sends and connect() on a socket may block.
void limit_sends(int socket, uint64_t limit_ns);

} // namespace cryo::capture
