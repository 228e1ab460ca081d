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
//     one->see_out();      // again and again: until it has
//     one->put_back();
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
    void see_out(); // again and again, until the agent has answered
    Result<void> put_back();
    // What the thread blocks, where other signals were kept from it meanwhile: to be put into its
    // signal frame. 0: its frame is right.
    Result<void> mend_frame(pid_t tid, uint64_t frame) const;

  private:
    struct Thread {
        bool runs = false;
        bool masked = false;
        uint64_t mask = 0;      // its own
        bool is_out = false;    // of the handler, or continued by somebody
        bool kept_away = false; // other signals, on its way out
        int last = 0;           // what it gets when it is let go
    };
    Stopped(pid_t pid, int signal) : pid_(pid), signal_(signal) {}
    Result<void> hold_threads();
    void pass(pid_t tid, Thread &thread, int status) const;
    Result<void> keep_others_away(pid_t tid, Thread &thread) const;
    Result<void> run(pid_t tid, Thread &thread) const;
    uint64_t waiting(pid_t tid, bool shared) const;

    pid_t pid_;
    int signal_;
    std::map<pid_t, Thread> threads_;
};

} // namespace cryo::capture
