// SPDX-License-Identifier: Apache-2.0
//
// Saves a process that is stopped by SIGSTOP or job control and must stay so. It is not continued,
// because its parent and its SIGCONT handlers would see that. Instead every thread is held in a
// ptrace stop and released with the checkpoint signal already pending, so that it runs the agent's
// handler and nothing of the program. When it leaves the handler, another checkpoint signal traps
// it; that one is discarded, and the thread is stopped as before. The kernel restores the stop also
// if we die.
//
//     Result<Stopped> one = Stopped::hold(412, SIGRTMAX, 10'000'000'000);
//     ... connect: this sends the signal ...
//     one->lead();         // the first thread handles it
//     one->follow();       // repeatedly: threads that the first one has signalled
//     one->ring();         // before the agent releases them
//     one->see_out();      // repeatedly: until the agent has answered
//     one->put_back();
#pragma once

#include "base/remote_address.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <map>
#include <sys/types.h>
#include <sys/user.h>

namespace cryo::capture {

class Stopped
{
  public:
    // `limit_ns`: for all waiting for its threads, however many steps it takes; the program, or
    // others by signals, may see to it that there are ever more.
    static Result<Stopped> hold(pid_t pid, int signal, uint64_t limit_ns);
    Stopped(Stopped &&other) noexcept = default;
    Stopped(const Stopped &) = delete;
    Stopped &operator=(const Stopped &) = delete;
    Stopped &operator=(Stopped &&) = delete;
    ~Stopped();

    // Of a child that was stopped before its agent could listen: lets it do so, in newborn.cpp.
    // Any other process is left where it would act for its program.
    Result<void> lead_to_door();
    Result<void> lead();
    Result<void> follow();
    void ring() const;
    void see_out(); // repeatedly, until the agent has answered
    Result<void> put_back();
    // Which signal has stopped it.
    int signal_of_stop() const { return signal_of_stop_; }
    // Writes a thread's own signal mask into its signal frame, if other signals were blocked
    // meanwhile. `frame`: its address.
    Result<void> mend_frame(pid_t tid, RemoteAddress frame) const;

  private:
    struct Thread {
        bool runs = false;
        bool masked = false;
        uint64_t mask = 0;      // its own
        bool is_out = false;    // left the handler, or was continued by someone
        bool kept_away = false; // others were blocked while it left the handler
        int last = 0;           // the signal it gets when it is detached
    };
    Stopped(pid_t pid, int signal, uint64_t limit_ns)
        : pid_(pid), signal_(signal), left_ns_(limit_ns)
    {}
    // Waits for a thread to stop in ptrace; returns its status as from waitpid(2).
    Result<int> await_trap(pid_t tid);
    Result<void> count_step(pid_t tid);
    static Error refused(pid_t tid, int err);
    Result<void> hold_threads();
    Result<user_regs_struct> next(pid_t tid, Thread &thread, int request, int expected);
    void pass(pid_t tid, Thread &thread, int status) const;
    Result<void> keep_others_away(pid_t tid, Thread &thread) const;
    Result<void> run(pid_t tid, Thread &thread);
    uint64_t waiting(pid_t tid, bool shared) const;

    pid_t pid_;
    int signal_;
    int signal_of_stop_ = 0;
    uint64_t left_ns_; // of the limit
    std::map<pid_t, Thread> threads_;
};

} // namespace cryo::capture
