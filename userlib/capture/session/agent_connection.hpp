// SPDX-License-Identifier: Apache-2.0
//
// Packets between a checkpoint and the agent inside a program, each awaited within limits. What the
// requests mean is for others to know: session.hpp, agent_facts.hpp, agent_descriptors.hpp and
// agent_memory.hpp.
//
//     AgentConnection connection(std::move(socket), 412);
//     connection.set_silence(10'000'000'000);
//     agent::ProcessFacts facts;
//     if (Result<agent::Reply> answer = connection.ask(agent::ProcessRequest{}); !answer)
//         return answer.error();
//     if (Result<void> got = connection.packet(&facts, sizeof(facts)); !got)
//         return got.error();
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "capture/session/patience.hpp"
#include "protocol/agent.hpp"
#include "protocol/outgoing.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <sys/types.h>
#include <utility>

namespace cryo::capture {

// The program resumed by itself, because this command was silent for too long.
Error called_off_after(pid_t pid, uint64_t silent_ms);

// Stopped by a signal, so that it does nothing at all.
bool is_stopped(pid_t pid);
// Fails if the process was stopped by a signal, since it could not answer then.
Result<void> check_running(pid_t pid);

class AgentConnection
{
  public:
    AgentConnection(Fd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid)
    {
        set_silence(silence_ns_);
    }
    AgentConnection(const AgentConnection &) = delete;
    AgentConnection &operator=(const AgentConnection &) = delete;

    // Another checkpoint has made this connection, and received the agent's answer.
    void take_over();

    int fd() const { return socket_.get(); }
    pid_t pid() const { return pid_; }

    // The time on the monotonic clock at which all waiting ends; 0: never.
    void set_deadline(uint64_t ns) { deadline_ = ns; }
    // The limit for one answer, except that of callbacks.
    void set_silence(uint64_t ns)
    {
        silence_ns_ = ns;
        limit_sends(socket_.get(), ns);
    }
    uint64_t silence_ns() const { return silence_ns_; }

    // Of the agent, as far as its replies have shown.
    bool can(agent::Feature one) const { return agent::has(features_, one); }
    bool is_typed() const { return is_typed_; }           // it reads typed requests
    bool was_heard() const { return heard_; }             // it has said something
    bool is_understood() const { return is_understood_; } // its last packets could be parsed

    template <class R>
    Result<void> send(const R &request, std::span<const int> fds = {})
    {
        return send(R::op, agent::Outgoing(request, is_typed_), fds);
    }
    // Sends the data of the preceding command. If that fails, the agent would take the next command
    // for this data and never see the command itself. So the connection is shut down; the agent
    // notices and lets the program resume.
    Result<void> send_rest(std::span<const char> bytes);
    // Sends several requests before the first answer is awaited. The calls that fetch the answers
    // must follow in this order, with no others in between.
    template <class... R>
    Result<void> ask_ahead(const R &...requests)
    {
        Result<void> sent;
        static_cast<void>(((sent = send_ahead(requests)) && ...));
        return sent;
    }
    // Sends a request, unless that was done ahead, and awaits a reply without an error.
    template <class R>
    Result<agent::Reply> ask(const R &request)
    {
        if (!was_asked_ahead(R::op)) {
            if (Result<void> sent = send(request); !sent)
                return sent.error();
        }
        return good_reply(R::op);
    }

    // Awaits a reply; its result may be an error.
    Result<agent::Reply> reply(agent::Op op);
    // Takes from a reply what the agent can do.
    void note_release(const agent::Reply &reply);
    void expect(uint64_t limit_ns); // starts the time limit for a complete answer
    // Callbacks may take any time, but a process stopped by a signal does nothing at all.
    Result<void> await_packet();
    // An older agent may send less, but not less than `least`; the rest is zero.
    Result<void> packet(void *to, size_t size, size_t least = 0);

    // Why nothing more comes. `err`: of the call that failed; 0: the end of the connection.
    Error lost(int err) const;
    Error other_protocol();

  private:
    Result<void> send(agent::Op op, const agent::Outgoing &packet, std::span<const int> fds);
    template <class R>
    Result<void> send_ahead(const R &request)
    {
        Result<void> sent = send(request);
        if (sent)
            asked_ahead_.push_back(R::op);
        return sent;
    }
    bool was_asked_ahead(agent::Op op);
    Result<agent::Reply> good_reply(agent::Op op);
    Error overdue() const;
    Error not_sent(int err) const;
    std::optional<Error> called_off() const;

    Fd socket_;
    pid_t pid_;
    uint64_t deadline_ = 0;
    uint64_t silence_ns_ = default_silence_ns;
    uint64_t answer_until_ = 0; // on the monotonic clock
    bool heard_ = false;
    bool is_understood_ = true;
    agent::Op asked_ = agent::Op::accepted; // the last request
    uint64_t features_ = 0;                 // of the agent
    bool is_typed_ = false;
    std::deque<agent::Op> asked_ahead_;
};

} // namespace cryo::capture
