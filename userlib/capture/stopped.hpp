// SPDX-License-Identifier: Apache-2.0
//
// A process that stands still by SIGSTOP or job control, and is to be saved so. Nobody continues
// it: its parent and its handlers of SIGCONT would see that. Instead every thread is held by a
// debugger's stop, and let go with the checkpoint signal already waiting for it, so that it runs
// the agent's handler and nothing of the program. On the way out of the handler it is caught by
// another checkpoint signal, which is thrown away, and stands still as before: the kernel takes up
// the stop again, also when we die.
//
//     Result<Stopped> one = Stopped::hold(412, SIGRTMAX);
//     ... connect: the signal comes ...
//     one->lead();         // the first thread takes it
//     one->follow();       // again and again: others that have been signalled by that one
//     one->ring();         // before the agent lets them go
//     one->put_back();     // when it has
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <map>
#include <sys/types.h>

namespace cryo::capture {

class Stopped
{
  public:
    static Result<Stopped> hold(pid_t pid, int signal);
    Stopped(Stopped &&other) noexcept = default;
    Stopped(const Stopped &) = delete;
    Stopped &operator=(const Stopped &) = delete;
    Stopped &operator=(Stopped &&) = delete;
    ~Stopped();

    Result<void> lead();
    Result<void> follow();
    void ring() const;
    Result<void> put_back();
    // What the thread blocks, where other signals were kept from it meanwhile: to be put into its
    // signal frame. 0: its frame is right.
    Result<void> mend_frame(pid_t tid, uint64_t frame) const;

  private:
    struct Thread {
        bool runs = false;
        bool masked = false;
        uint64_t mask = 0; // its own
    };
    Stopped(pid_t pid, int signal) : pid_(pid), signal_(signal) {}
    Result<void> hold_threads();
    Result<void> keep_others_away(pid_t tid, Thread &thread) const;
    Result<void> run(pid_t tid, Thread &thread) const;
    uint64_t waiting(pid_t tid, bool shared) const;

    pid_t pid_;
    int signal_;
    std::map<pid_t, Thread> threads_;
};

} // namespace cryo::capture
