// SPDX-License-Identifier: Apache-2.0
//
// Where ranks go when nodes are lost.
#include "coord/new_hosts.hpp"

#include <gtest/gtest.h>

namespace cryo::coord {
namespace {

// Of as many nodes as there are words: "n1 n1 n2".
Snapshot on(const std::vector<std::string> &nodes, const std::vector<std::string> &command = {})
{
    Snapshot snapshot;
    snapshot.command = command;
    for (uint32_t rank = 0; rank < nodes.size(); rank++)
        snapshot.images.push_back({.rank = rank, .node = nodes[rank]});
    return snapshot;
}

const std::vector<HostRanks> three = {{"n1", 2, 2}, {"n2", 2, 2}, {"n3", 1, 1}};

std::string text_of(const std::vector<HostRanks> &before, const NodesToUse &use)
{
    const Result<NewHosts> hosts = new_hosts(before, use);
    return hosts ? hosts->text() : hosts.error().text();
}

TEST(HostsOf, CountRanksInTheirOrder)
{
    EXPECT_EQ(hosts_of(on({"n2", "n1", "n2"})),
              (std::vector<HostRanks>{{"n2", 2, 2}, {"n1", 1, 1}}));
}

TEST(HostsOf, HaveTheSlotsOfTheCommandLine)
{
    EXPECT_EQ(hosts_of(on({"n1", "n1", "n2.cluster"},
                          {"mpirun", "--host", "n1:4,n2:3,n5:2", "-n", "3", "./app"})),
              (std::vector<HostRanks>{{"n1", 2, 4}, {"n2.cluster", 1, 3}, {"n5", 0, 2}}));
    // Which of these addresses is which node is not known.
    EXPECT_EQ(hosts_of(on({"n1"}, {"mpirun", "--host", "10.0.0.1:4,10.0.0.2", "./app"})),
              (std::vector<HostRanks>{{"n1", 1, 1}}));
}

TEST(NewHosts, AreTheOldOnesWhenNoneIsLost)
{
    EXPECT_EQ(text_of(three, {}), "n1:2,n2:2,n3:1");
}

TEST(NewHosts, HaveASpareInThePlaceOfALostOne)
{
    const Result<NewHosts> hosts = new_hosts(three, {.lost = {"n2"}, .spares = {"n8", "n9"}});
    ASSERT_TRUE(hosts);
    EXPECT_EQ(hosts->text(), "n1:2,n8:2,n3:1");
    EXPECT_EQ(hosts->used, std::vector<std::string>{"n8"});
    EXPECT_FALSE(hosts->packed);
    EXPECT_EQ(text_of(three, {.lost = {"n1", "n3"}, .spares = {"n8", "n9"}}), "n8:2,n2:2,n9:1");
}

TEST(NewHosts, NeverHaveALostOneAsASpareNorOneThatIsUsed)
{
    EXPECT_EQ(text_of(three, {.lost = {"n2", "n8.cluster"}, .spares = {"n8", "n3", "n9"}}),
              "n1:2,n9:2,n3:1");
}

TEST(NewHosts, FillFreeSlotsFirst)
{
    const std::vector<HostRanks> before = {{"n1", 2, 4}, {"n2", 3, 3}, {"n3", 0, 1}};
    const Result<NewHosts> hosts = new_hosts(before, {.lost = {"n2"}, .packs = false});
    ASSERT_TRUE(hosts);
    EXPECT_EQ(hosts->text(), "n1:4,n3:1");
    EXPECT_FALSE(hosts->packed);
}

TEST(NewHosts, ArePackedEvenly)
{
    const Result<NewHosts> hosts =
        new_hosts({{"n1", 4, 4}, {"n2", 2, 2}, {"n3", 3, 3}}, {.lost = {"n3"}});
    ASSERT_TRUE(hosts);
    EXPECT_TRUE(hosts->packed);
    EXPECT_EQ(hosts->text(), "n1:6,n2:3");
}

TEST(NewHosts, SayWhatIsMissing)
{
    EXPECT_EQ(text_of(three, {.lost = {"n2"}, .packs = false}),
              "node n2 is lost, no spare is left, and the other nodes have no slots for 2 of its "
              "ranks, and the policy does not allow more (pack = false); start it again with other "
              "nodes by ompi-restart --hosts, or with --spares");
    EXPECT_NE(text_of({{"n1", 1, 1}}, {.lost = {"n1"}}).find("no other node is left"),
              std::string::npos);
}

TEST(NewHosts, NeedNames)
{
    EXPECT_EQ(text_of({{"n1", 1, 1}, {"n1/2", 1, 1}}, {.lost = {"n1"}}),
              "node 'n1/2' has no name by which a launcher reaches it");
    for (const char *name : {"n1", "n1.cluster", "10.0.0.1", "a_b-c"})
        EXPECT_TRUE(is_host_name(name)) << name;
    for (const char *name : {"", "-n", "n1:4", "a,b", "a b", "a/2", "a;b"})
        EXPECT_FALSE(is_host_name(name)) << name;
}

TEST(NewHosts, AreTheSameWithADomainOrWithout)
{
    EXPECT_TRUE(is_same_host("n1", "n1.cluster"));
    EXPECT_TRUE(is_same_host("n1.cluster", "n1"));
    EXPECT_FALSE(is_same_host("n1.a", "n1.b"));
    EXPECT_FALSE(is_same_host("n1", "n11"));
}

} // namespace
} // namespace cryo::coord
