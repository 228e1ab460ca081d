// SPDX-License-Identifier: Apache-2.0
//
// Code of ours runs in a thread of a running program, which does not notice: the thread is stopped,
// makes system calls, runs a function, and goes on as if nothing had been. All signals that can
// wait do so meanwhile.
//
//     Result<Intrusion> inside = Intrusion::begin(pid, path, check, deadline_ns);
//     Result<uint64_t> fd = inside->call(SYS_openat, AT_FDCWD, inside->path().number(), O_RDONLY);
//     Result<agent::AttachOrder> answer = inside->run(entry, order);
//     Result<void> out = inside->finish(signal);
//
// If this process is killed at any moment, the thread ends the call or the function that it is in
// and then goes back by itself (way_back.hpp). Only a system call that waited with a time limit
// begins anew then, with the whole limit.
#pragma once

#include "capture/attach/instructions.hpp"
#include "capture/tracing/seized_thread.hpp"
#include "capture/tracing/way_back.hpp"

#include <array>
#include <csignal>
#include <functional>
#include <sys/ptrace.h>
#include <vector>

namespace cryo::capture {

class Intrusion
{
  public:
    // Whether the thread, which stands still with these registers, may be entered. Nothing of the
    // process has been changed before.
    using Check = std::function<Result<void>(const user_regs_struct &)>;

    static Result<Intrusion> begin(pid_t pid, const std::string &path, const Check &check,
                                   uint64_t deadline_ns);
    Intrusion(Intrusion &&) = default;
    Intrusion &operator=(Intrusion &&) = delete;
    ~Intrusion();

    pid_t pid() const { return thread_.pid(); }
    RemoteAddress path() const { return way_.path(); }
    // The C library's area, from the thread's base.
    void describe_rseq(agent::AttachOrder &order) const;

    // The kernel's result, −errno among it.
    template <class... Args>
    Result<int64_t> call(long number, Args... args)
    {
        static_assert(sizeof...(Args) <= 6);
        return call6(number, {static_cast<uint64_t>(args)...});
    }
    Result<agent::AttachOrder> run(RemoteAddress entry, const agent::AttachOrder &order);
    // The thread goes on; from now on it does not block that signal (0: as before).
    Result<void> finish(int unblocked);

  private:
    Intrusion(SeizedThread thread, Instructions instructions)
        : thread_(std::move(thread)), instructions_(instructions)
    {}
    Result<void> look(const std::string &path, const Check &check);
    Result<void> start(const user_regs_struct &registers);
    Result<void> next_call();
    void keep(const siginfo_t &info);
    void send_kept();
    Result<int64_t> call6(long number, const std::array<uint64_t, 6> &args);
    user_regs_struct foreign_registers() const;

    SeizedThread thread_;
    Instructions instructions_;
    user_regs_struct before_ = {};
    std::vector<char> vector_state_;
    uint64_t mask_ = 0;
    __ptrace_rseq_configuration rseq_ = {};
    WayBack way_;
    std::vector<siginfo_t> kept_; // of signals that are sent again at the end
    bool is_inside_ = false;
    bool is_at_beginning_ = false; // of the rt_sigreturn that is not to be made
};

} // namespace cryo::capture
