// SPDX-License-Identifier: Apache-2.0
//
// The part of a session that asks the stopped program for facts that only it knows.
//
//     AgentFacts &facts = session->facts();
//     Result<void> sent = facts.ask_ahead(agent::ProcessRequest{}, agent::ThreadsRequest{});
//     ... other work, while the program answers ...
//     Result<agent::ProcessFacts> process = facts.process();
//     Result<std::vector<agent::ThreadFacts>> threads = facts.threads();
#pragma once

#include "base/remote_address.hpp"
#include "base/result.hpp"
#include "capture/session/agent_connection.hpp"
#include "protocol/agent.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace cryo::capture {

using Actions = std::array<agent::SignalAction, agent::max_signals>;

class AgentFacts
{
  public:
    explicit AgentFacts(AgentConnection &connection) : connection_(&connection) {}

    // As in AgentConnection.
    template <class... R>
    Result<void> ask_ahead(const R &...requests)
    {
        return connection_->ask_ahead(requests...);
    }
    Result<std::vector<agent::ThreadFacts>> threads(); // the checkpoint's leader first
    Result<agent::ProcessFacts> process();
    Result<Actions> actions();
    Result<agent::TimerFacts> timer(int id); // a POSIX timer
    Result<agent::OwnFacts> own();
    // The parts of the process that do not belong to the program; null if there are none.
    Result<std::unique_ptr<agent::LodgerFacts>> lodger();
    // System V objects named in calls of its functions; empty if the agent is too old.
    Result<std::vector<agent::IpcUse>> ipc();
    // How its exit would change a set of semaphores. EOPNOTSUPP: the agent cannot tell.
    Result<std::vector<int16_t>> undo(int id, uint64_t semaphores);
    // A context of asynchronous I/O, by its ring; `idle`: how many requests one of this size takes
    // while none is under way. `error`: as the agent's result in agent::Op::aio.
    struct Aio {
        int error = 0;
        uint32_t head = 0, tail = 0;
        std::vector<uint64_t> events; // that nobody has fetched, four numbers each
    };
    Result<Aio> aio(RemoteAddress ring, uint64_t bytes, uint64_t idle);

  private:
    AgentConnection *connection_;
};

} // namespace cryo::capture
