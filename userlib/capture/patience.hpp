// SPDX-License-Identifier: Apache-2.0
//
// How long somebody else is waited for. A program may be hostile, stopped or hung, and a command
// that waits for it, perhaps root's, must come to an end.
//
//     Patience patience(10'000'000'000);
//     while (read(fd, ...) < 0 && errno == EAGAIN)
//         if (!patience.await(fd))
//             return Error(EBUSY, "... does not go on");
#pragma once

#include <cstdint>

namespace cryo::capture {

// How long a program may stand still, or be waited for, while nothing happens.
constexpr uint64_t default_silence_ns = 10'000'000'000;
// Callbacks are the program's own, and it runs meanwhile; so do others that save it.
constexpr uint64_t callbacks_limit_ns = 300'000'000'000;

// Of one thing that is read in parts: what comes must not come by the byte.
class Patience
{
  public:
    explicit Patience(uint64_t limit_ns) : limit_ns_(limit_ns) {}

    // So many bytes have come.
    void note(uint64_t bytes);
    // What is waited for from now on is something new.
    void begin_anew() { waited_ns_ = bytes_ = 0; }
    // Until the descriptor can be read. False: for too long too little has come.
    bool await(int fd);

  private:
    uint64_t limit_ns_;
    uint64_t waited_ns_ = 0; // what we do in between does not count
    uint64_t bytes_ = 0;
};

// Until the descriptor can be read; false: it cannot, for so long.
bool await_readable(int fd, uint64_t limit_ns);
// sends and connect() on a socket do not take longer.
void limit_sends(int socket, uint64_t limit_ns);

} // namespace cryo::capture
