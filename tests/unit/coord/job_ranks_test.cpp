// SPDX-License-Identifier: Apache-2.0
//
// Which ranks of a job are there, and what is still waited for.
#include "coord/job_ranks.hpp"

#include "coord/daemon.hpp"

#include <cerrno>
#include <gtest/gtest.h>
#include <sys/socket.h>

namespace cryo::coord {
namespace {

using nlohmann::json;

class Ranks : public testing::Test
{
  protected:
    // The members from 1 on; what they are told is not read.
    void add_members(uint32_t count)
    {
        for (uint32_t i = 1; i <= count; i++) {
            int ends[2];
            ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
            others.emplace_back(ends[1]);
            members.add(Channel::make(loop, Fd(ends[0])), "n" + std::to_string(i),
                        Message(Type::join, {{"addresses", json::array()}, {"port", 1}}));
        }
    }
    void come(uint32_t member, uint32_t rank, uint32_t of)
    {
        ranks.came(member,
                   Message(Type::rank,
                           {{"rank", rank}, {"ranks", of}, {"pid", 100 + rank}, {"space", "job"}}));
    }
    int code() const
    {
        const Result<void> ready = ranks.complete();
        EXPECT_EQ(ranks.are_waited_for(), !ready && ready.error().code() == EAGAIN);
        return ready ? 0 : ready.error().code();
    }

    Loop loop;
    Daemon local{loop, Job{.id = "7-aa", .secret = {}, .addresses = {}, .directory = {}}, "n0",
                 [](const Message &) {}};
    Members members{local};
    JobRanks ranks{"7-aa", local, members};
    std::vector<Fd> others;
};

TEST_F(Ranks, AreWaitedForUntilTheTreeStands)
{
    add_members(2);
    EXPECT_EQ(code(), EAGAIN);
    come(1, 0, 3);
    come(1, 2, 3);
    EXPECT_EQ(code(), EAGAIN);
    EXPECT_EQ(ranks.of(1), (std::set<uint32_t>{0, 2}));
    EXPECT_TRUE(ranks.of(2).empty());
    come(2, 1, 3);
    for (const uint32_t member : {0U, 1U, 2U}) {
        EXPECT_EQ(code(), EAGAIN);
        ranks.placed(member, 1);
        ranks.placed(member, 1); // which says nothing new
    }
    EXPECT_EQ(code(), 0);
    EXPECT_TRUE(ranks.left(1, 2));
    EXPECT_EQ(code(), ESRCH);
    EXPECT_EQ(ranks.of(1), (std::set<uint32_t>{0}));
}

TEST_F(Ranks, ADaemonWithoutAPlaceIsNamed)
{
    add_members(1);
    come(1, 0, 1);
    ranks.placed(0, 1);
    members.blame(1, "no way to it");
    EXPECT_EQ(code(), EHOSTUNREACH);
    EXPECT_EQ(ranks.complete().error().text(), "node n1: no way to it");
    members.remove(1);
    EXPECT_EQ(code(), EAGAIN);
}

TEST_F(Ranks, TheFirstOfManyAreNamed)
{
    add_members(1);
    constexpr uint32_t many = 100'000;
    for (uint32_t rank = 1; rank < many; rank += 2)
        come(1, rank, many);
    const std::string text = ranks.complete().error().text();
    EXPECT_NE(text.find("rank 0, 2, 4, 6, 8, 10, 12, 14 and 49992 more has not called"),
              std::string::npos)
        << text;
    EXPECT_EQ(ranks.list_of(1), "1, 3, 5, 7, 9, 11, 13, 15 and 49992 more");
}

} // namespace
} // namespace cryo::coord
