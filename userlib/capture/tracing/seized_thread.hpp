// SPDX-License-Identifier: Apache-2.0
//
// A thread of another process that this thread traces. It is let go at the end; if this process is
// killed, the kernel does that: the thread then goes on from where it stands.
//
//     Result<SeizedThread> thread = SeizedThread::seize(pid, tid, deadline);  // it stands still
//     thread->go(PTRACE_SYSCALL);
//     Result<SeizedThread::Stop> stop = thread->await();
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <sys/types.h>
#include <sys/user.h>
#include <vector>

namespace cryo::capture {

class SeizedThread
{
  public:
    enum class Kind { event, call, signal };
    struct Stop {
        Kind kind;
        int signal; // that is about to be delivered
    };

    // Stands where the kernel takes signals, so that it goes on as after one without a handler.
    static Result<SeizedThread> seize(pid_t pid, pid_t tid, uint64_t deadline_ns);
    SeizedThread(SeizedThread &&other) noexcept;
    SeizedThread &operator=(SeizedThread &&) = delete;
    ~SeizedThread();

    pid_t pid() const { return pid_; }
    pid_t tid() const { return tid_; }

    void go(int request, int signal = 0);
    // Until the next stop. An error: the time is over, this command is to end, or the thread has
    // ended.
    Result<Stop> await();
    // An error after another stop that came too late.
    Result<void> check_time() const;
    // From now on until then, whatever the time limit was, and although this command is to end.
    void insist(uint64_t deadline_ns)
    {
        deadline_ns_ = deadline_ns;
        insists_ = true;
    }
    // From a stop at a system call to one where the kernel takes signals.
    Result<void> come_to_rest();
    // Makes no system call of the one at whose beginning the thread stands, if it does.
    void let_go();

    Result<user_regs_struct> registers() const;
    Result<void> set_registers(const user_regs_struct &registers) const;
    Result<std::vector<char>> vector_state() const;
    Result<void> set_vector_state(std::vector<char> &state) const;
    Result<uint64_t> mask() const;
    // Whether a signal with a handler is there, or would be with that mask.
    bool signal_waits(uint64_t mask) const;
    // After seize(): the stop itself is hidden from the thread, as far as registers can do that.
    Result<void> hide_stop() const;
    Result<void> set_mask(uint64_t mask) const;

  private:
    SeizedThread(pid_t pid, pid_t tid, uint64_t deadline_ns)
        : pid_(pid), tid_(tid), deadline_ns_(deadline_ns)
    {}
    Error failed(const char *what) const;
    Error too_late() const;

    pid_t pid_, tid_;
    uint64_t deadline_ns_;
    bool stands_ = false;
    bool insists_ = false;
    int signal_ = 0; // of the present stop
};

// Whether a signal waits, blocked, that ends this command.
bool is_asked_to_end();
Error asked_to_end();

// Why this process may not trace that one, in words for its user.
Error may_not_trace(pid_t pid, int error);

} // namespace cryo::capture
