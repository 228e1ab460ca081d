// SPDX-License-Identifier: Apache-2.0
//
// The process of a member: its turn, the connection to its agent, its stop, and its end.
//
//     MemberProcess process(relation, std::move(turn), common);
//     process.find_agent();                                    // does not disturb it
//     process.enter(); process.ask_to_prepare(request);
//     process.ask_to_stop(); process.await_stop();
//     ... process.agent() tells about it while it stands still ...
//     process.ask_to_go_on(); process.await_go_on(); process.callbacks_done();
//
// Several processes are asked for each step before the first answer is awaited.
#pragma once

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"
#include "capture/process/describe.hpp"
#include "capture/process/stopped.hpp"
#include "capture/session/deafness.hpp"
#include "capture/session/session.hpp"
#include "capture/session/turn.hpp"
#include "look/members.hpp"

#include <cstdint>
#include <optional>
#include <sys/types.h>

namespace cryo::capture {

class MemberProcess
{
  public:
    MemberProcess(const Relation &relation, Turn turn, const Common &common);
    MemberProcess(const MemberProcess &) = delete;
    MemberProcess &operator=(const MemberProcess &) = delete;

    // Finds the agent's address, as far as that does not disturb the process.
    void find_agent();
    // Connects to the agent in the process. ESRCH: the process has ended meanwhile.
    Result<void> enter();
    // Takes over a connection that another checkpoint has made.
    void adopt(Fd connection);

    const Relation &relation() const { return relation_; }
    AgentSession &agent() { return *agent_; }
    Turn &turn() { return turn_; }

    // Starts its callbacks, which may take any time: see AgentSession.
    Result<void> ask_to_prepare(const agent::RequestInfo &request);
    uint64_t asked_since() const { return asked_since_; } // on the monotonic clock
    void set_asked_since(uint64_t since) { asked_since_ = since; }
    // Looks whether it will ever answer: not, if it does not hear the checkpoint signal.
    bool is_deaf();
    Error silent() const; // why it does not answer
    void set_prepared(bool has_callbacks) { has_callbacks_ = has_callbacks; }
    bool has_callbacks() const { return has_callbacks_; }
    // Whether the process was found stopped: then follow() must be called repeatedly while waiting.
    bool is_stopped() const { return stopped_.has_value(); }
    int signal_of_stop() const { return stopped_ ? stopped_->signal_of_stop() : 0; }
    Result<void> follow() { return stopped_ ? stopped_->follow() : Result<void>(); }
    Result<void> ask_to_stop() { return agent_->ask_to_stop(); }
    Result<void> await_stop();
    uint64_t threads() const { return threads_; }
    // For each thread once it is known: see Stopped.
    Result<void> mend_frame(pid_t tid, RemoteAddress frame) const
    {
        return stopped_ ? stopped_->mend_frame(tid, frame) : Result<void>();
    }
    // `why`: the errno for which there will be no image, or 0.
    Result<void> ask_to_go_on(int why = 0) { return ask_to_resume(why, 0); }
    Result<void> await_go_on();
    Result<void> callbacks_done();

    // Checks that the signal would reach it; some processes of a pid namespace ignore it.
    Result<void> check_takes(int signal) const;
    void send_signal(int signal) const;
    // Resumes, but sends itself the signal first, so that nothing of it can run before the signal
    // arrives. An error: it has resumed already.
    bool sends_itself_signals() const;
    Result<void> end_with(int signal);
    Result<void> await_end();
    // True, too, once no thread of it runs any more, while its memory is freed or dumped.
    bool is_ending() const;
    // After SIGSTOP: waits until no thread runs; let_go() then frees it to run once continued.
    void await_standstill() const;
    void let_go();

  private:
    Result<void> ask_to_resume(int why, int signal);
    Result<uint64_t> await_parked();

    Relation relation_;
    Proc proc_;
    const Common &common_;
    Turn turn_;         // held until it has resumed and its callbacks have ended
    Result<Fd> handle_; // a pidfd, so that a signal never hits another process with a reused pid
    std::optional<AgentDoor> door_;
    std::optional<AgentSession> agent_;
    std::optional<Stopped> stopped_;
    Deafness deafness_;
    bool judged_ = false; // its own filters of system calls let the agent work
    bool has_callbacks_ = false;
    uint64_t asked_since_ = 0;
    uint64_t threads_ = 0;
};

} // namespace cryo::capture
