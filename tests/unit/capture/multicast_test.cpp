// SPDX-License-Identifier: Apache-2.0
// The groups of multicasts that a socket has joined, as the kernel tells them.
#include "capture/multicast.hpp"

#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

using namespace std::literals;

constexpr std::string_view four = "\xef\xff\x4d\x01"sv, other_four = "\xef\xff\x4d\x02"sv;
constexpr std::string_view six = "\xff\x05\0\0\0\0\0\0\0\0\0\0\0\0\x4d\x01"sv;

class Multicast : public testing::Test
{
  protected:
    explicit Multicast(int domain = AF_INET) : fd_(socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}

    bool join(std::string_view group)
    {
        const group_req request = {loopback_, as_group_address(group)};
        return setsockopt(fd_.get(), level_of_group(group), MCAST_JOIN_GROUP, &request,
                          sizeof(request)) == 0;
    }
    bool source(int option, std::string_view group, std::string_view address)
    {
        const group_source_req request = {loopback_, as_group_address(group),
                                          as_group_address(address)};
        return setsockopt(fd_.get(), level_of_group(group), option, &request, sizeof(request)) == 0;
    }
    std::vector<Membership> memberships(int domain = AF_INET)
    {
        SocketLook look;
        look.domain = domain;
        GroupTables().look_at(fd_.get(), Proc(getpid()), look);
        EXPECT_EQ(look.problem, "");
        return look.memberships;
    }

    const uint32_t loopback_ = if_nametoindex("lo");
    Fd fd_;
};

class MulticastOf6 : public Multicast
{
  protected:
    MulticastOf6() : Multicast(AF_INET6) {}
};

TEST_F(Multicast, WhatJoinedNothingHasNone)
{
    EXPECT_TRUE(memberships().empty());
}

TEST_F(Multicast, GroupsAreTold)
{
    ASSERT_TRUE(join(four));
    ASSERT_TRUE(join(other_four));
    ASSERT_TRUE(source(MCAST_BLOCK_SOURCE, other_four, "\x7f\0\0\x02"sv));
    auto found = memberships();
    ASSERT_EQ(found.size(), 2u);
    if (found[0].group != four) // the kernel lists the last one first
        std::swap(found[0], found[1]);
    EXPECT_EQ(found[0].interface, "lo");
    EXPECT_EQ(found[0].group, four);
    EXPECT_FALSE(found[0].filter.only_sources);
    EXPECT_EQ(found[0].filter.sources, "");
    EXPECT_EQ(found[1].group, other_four);
    EXPECT_FALSE(found[1].filter.only_sources);
    EXPECT_EQ(found[1].filter.sources, "\x7f\0\0\x02"sv);
}

TEST_F(Multicast, AGroupOfEveryInterfaceMayBeJoined)
{
    ASSERT_TRUE(join("\xe0\0\0\x01"sv));
    EXPECT_EQ(memberships().size(), 1u);
}

TEST_F(Multicast, ManySourcesAreTold)
{
    std::string sources;
    for (char i = 1; i <= 9; i++) {
        const std::string one = {127, 0, 0, i};
        ASSERT_TRUE(source(MCAST_JOIN_SOURCE_GROUP, four, one));
        sources += one;
    }
    const auto found = memberships();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_TRUE(found[0].filter.only_sources);
    EXPECT_EQ(found[0].filter.sources, sources);
}

TEST_F(Multicast, AMemberThatHearsNobodyIsTold)
{
    ASSERT_TRUE(join(four));
    ASSERT_FALSE(source(MCAST_LEAVE_SOURCE_GROUP, four, "\x7f\0\0\x01"sv));
    const auto found = memberships();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_TRUE(found[0].filter.only_sources);
    EXPECT_EQ(found[0].filter.sources, "");
}

TEST_F(MulticastOf6, GroupsOfBothAreTold)
{
    if (!fd_)
        GTEST_SKIP() << "no IPv6 here";
    ASSERT_TRUE(join(four));
    ASSERT_TRUE(source(MCAST_JOIN_SOURCE_GROUP, six, std::string(15, '\0') + '\x01'));
    const auto found = memberships(AF_INET6);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].group, four);
    EXPECT_EQ(found[1].interface, "lo");
    EXPECT_EQ(found[1].group, six);
    EXPECT_TRUE(found[1].filter.only_sources);
    EXPECT_EQ(found[1].filter.sources, std::string(15, '\0') + '\x01');
}

} // namespace

} // namespace cryo::capture
