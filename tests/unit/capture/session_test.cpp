// SPDX-License-Identifier: Apache-2.0
//
// An agent that answers and hangs up while the answer is looked for.
#include "base/passing.hpp"
#include "capture/session.hpp"

#include <array>
#include <functional>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace {

// What the agent does between the kernel's look for a packet and its look for the end, which is
// what the kernel then says.
std::function<void()> between;

} // namespace

// In the place of the C library's.
extern "C" ssize_t recv(int from, void *to, size_t size, int flags)
{
    if (!between)
        return syscall(SYS_recvfrom, from, to, size, flags, nullptr, nullptr);
    std::exchange(between, nullptr)();
    return 0;
}

namespace cryo::capture {
namespace {

struct Agent {
    Fd end;

    void answer(const agent::Reply &reply) const
    {
        EXPECT_EQ(ssize_t(sizeof(reply)), send_with(end.get(), bytes_of(reply), {}));
    }
    // The last that it does where there are no callbacks.
    void go_on()
    {
        agent::Command command = {};
        std::vector<Fd> none;
        EXPECT_EQ(ssize_t(sizeof(command)), receive_with(end.get(), room_in(command), none));
        EXPECT_EQ(agent::Op::resume, command.op);
        answer({agent::protocol_magic, agent::protocol_version, command.op, 0, 0, 0});
        end.reset();
    }
};

std::pair<AgentSession, Agent> begin()
{
    std::array<int, 2> ends{};
    EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()));
    return {AgentSession::adopt(Fd(ends[0]), getpid()), Agent{Fd(ends[1])}};
}

TEST(Session, AnswersAndHangsUpBefore)
{
    auto [session, agent] = begin();
    ASSERT_TRUE(session.ask_to_resume(0));
    agent.go_on();
    EXPECT_TRUE(session.await_resumed());
}

TEST(Session, AnswersAndHangsUpWhileItIsLookedFor)
{
    auto [session, agent] = begin();
    ASSERT_TRUE(session.ask_to_resume(0));
    between = [&end = agent] { end.go_on(); };
    const Result<void> gone = session.await_resumed();
    EXPECT_TRUE(gone) << (gone ? "" : gone.error().text());
}

TEST(Session, HangsUpWithoutAnAnswer)
{
    auto [session, agent] = begin();
    ASSERT_TRUE(session.ask_to_resume(0));
    agent.end.reset();
    const Result<void> gone = session.await_resumed();
    ASSERT_FALSE(gone);
    EXPECT_NE(std::string::npos, gone.error().text().find("has hung up"));
}

} // namespace
} // namespace cryo::capture
