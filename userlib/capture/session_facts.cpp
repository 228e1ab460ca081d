// SPDX-License-Identifier: Apache-2.0
// The part of a session that asks the stopped program for what only it can tell.
#include "capture/session.hpp"

#include <cstddef>

namespace cryo::capture {

using agent::Op;
using agent::Reply;

Result<void> AgentSession::ask_ahead(std::initializer_list<Op> ops)
{
    for (const Op op : ops) {
        if (Result<void> sent = send(op); !sent)
            return sent;
        asked_ahead_.push_back(op);
    }
    return {};
}

Result<std::vector<agent::ThreadFacts>> AgentSession::threads()
{
    Result<Reply> answer = ask(Op::threads);
    if (!answer)
        return answer.error();
    std::vector<agent::ThreadFacts> all;
    for (uint64_t i = 0; i < answer->count; i++) {
        agent::ThreadFacts one;
        constexpr size_t least = offsetof(agent::ThreadFacts, securebits);
        if (Result<void> got = packet(&one, sizeof(one), least); !got)
            return got.error();
        all.push_back(one);
    }
    return all;
}

Result<agent::ProcessFacts> AgentSession::process()
{
    agent::ProcessFacts facts;
    if (Result<Reply> answer = ask(Op::process); !answer)
        return answer.error();
    constexpr size_t least = offsetof(agent::ProcessFacts, mlockall);
    if (Result<void> got = packet(&facts, sizeof(facts), least); !got)
        return got.error();
    return facts;
}

Result<Actions> AgentSession::actions()
{
    Actions all;
    if (Result<Reply> answer = ask(Op::actions); !answer)
        return answer.error();
    if (Result<void> got = packet(all.data(), sizeof(all)); !got)
        return got.error();
    return all;
}

Result<agent::TimerFacts> AgentSession::timer(int id)
{
    Result<Reply> answer = ask(Op::timer, static_cast<uint64_t>(id));
    if (!answer)
        return answer.error();
    agent::TimerFacts facts;
    if (Result<void> got = packet(&facts, sizeof(facts)); !got)
        return got.error();
    return facts;
}

} // namespace cryo::capture
