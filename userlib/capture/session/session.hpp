// SPDX-License-Identifier: Apache-2.0
//
// One checkpoint's session with the agent inside a program: its callbacks, its stop and how it goes
// on; and parts that ask the stopped program for what only it knows or has. Destroying this object
// (or ending the process that holds it) lets a stopped program resume.
//
//     Result<AgentDoor> door = AgentDoor::find(412);
//     Result<AgentSession> session = AgentSession::enter(std::move(*door));
//     if (Result<uint64_t> threads = session->stop(); !threads)
//         return threads.error();
//     ... read /proc ...
//     Result<agent::ProcessFacts> facts = session->facts().process();
//     Result<PageSource> pages = session->memory().serve();
//     session->ask_to_resume(0);
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "capture/session/agent_connection.hpp"
#include "capture/session/agent_descriptors.hpp"
#include "capture/session/agent_door.hpp"
#include "capture/session/agent_facts.hpp"
#include "capture/session/agent_memory.hpp"
#include "protocol/agent.hpp"

#include <cstdint>
#include <memory>
#include <sys/types.h>
#include <utility>

namespace cryo::capture {

class AgentSession
{
  public:
    // Connects; from now on the program is interrupted.
    static Result<AgentSession> enter(AgentDoor door);
    // Takes over a connection that another checkpoint has made.
    static AgentSession adopt(Fd connection, pid_t pid)
    {
        AgentSession made(std::move(connection), pid);
        made.connection_->take_over();
        return made;
    }

    // Limits on waiting, as in AgentConnection.
    void set_deadline(uint64_t ns) { connection_->set_deadline(ns); }
    void set_silence(uint64_t ns) { connection_->set_silence(ns); }
    // The agent lets the program resume if it receives nothing for as long as the request allows;
    // this message tells it that the command still works.
    void say_alive();
    // Checks that the program has been stopped all the time, and restarts its silence limit. Older
    // agents cannot answer; for them it succeeds.
    Result<void> check_standing();

    // Starts the program's callbacks, which may take any time; the results arrive at fd().
    Result<void> ask_to_prepare(const agent::RequestInfo &request);
    struct Prepared {
        agent::Op op;           // accepted; forward; or prepare: callbacks await the image
        bool callbacks = false; // with prepare: there are callbacks
        bool omits = false;     // with prepare: it leaves itself out
        int scope = 0;          // with forward: a CR_SCOPE_*
        pid_t target = 0;
    };
    // The next packet, which must have arrived. After `prepare` or an error none follows.
    Result<Prepared> prepared();
    bool was_heard() const { return connection_->was_heard(); } // it has said something
    int fd() const { return connection_->fd(); }
    pid_t pid() const { return connection_->pid(); }
    // Fails if the process was stopped by a signal, since it could not answer then.
    Result<void> check_running() const { return capture::check_running(pid()); }
    Result<void> ask_to_stop();                  // then:
    bool has_answer(int milliseconds = 1) const; // an answer comes within that time
    Result<uint64_t> stop();                     // number of stopped threads
    // After stop() has failed with EPERM, for root: shows the agent of a program that is not
    // dumpable that the kernel lets us read it. Then it may be asked to stop once more.
    Result<void> prove_right();
    AgentFacts &facts() { return facts_; }
    AgentDescriptors &descriptors() { return descriptors_; }
    AgentMemory &memory() { return memory_; }
    // Resumes the program. `why`: the errno for which there will be no image, or 0. `signal`: sent
    // by the process to itself before any of it runs; 0: none.
    Result<void> ask_to_resume(int why, int signal = 0);
    bool sends_itself_signals() const;
    // Whether the agent tells all it can in a program with filters of its own (own_filters.hpp).
    bool relies_on_judged_filters() const
    {
        return connection_->can(agent::Feature::judged_filters);
    }
    // Also fails if the program had resumed earlier because we were silent.
    Result<void> await_resumed();
    // As ask_to_resume(), for a process that is stopped: so without waiting for an answer.
    void let_go();
    // Waits for the callbacks to end; fails if one of them forbids the image. A program that has
    // ended meanwhile is no error.
    Result<void> callbacks_done();

  private:
    AgentSession(Fd connection, pid_t pid);
    // Whether all user ids of the process are root's, as was that of who listens for it.
    bool is_roots() const;

    // Stays where it is when the session is moved: the parts refer to it.
    std::unique_ptr<AgentConnection> connection_;
    AgentFacts facts_;
    AgentDescriptors descriptors_;
    AgentMemory memory_;
    bool began_as_roots_;
};

} // namespace cryo::capture
