// SPDX-License-Identifier: Apache-2.0
// The groups of multicasts that a socket has joined, as the kernel tells them.
#include "image/socket_options.hpp"
#include "look/multicast.hpp"

#include <algorithm>
#include <cerrno>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/wait.h>
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

TEST_F(Multicast, WhatHasOnlyAFilterHasNone)
{
    sock_filter all = BPF_STMT(BPF_RET | BPF_K, 0xffff);
    const sock_fprog filter = {1, &all};
    ASSERT_EQ(setsockopt(fd_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)), 0);
    EXPECT_TRUE(memberships().empty());
}

// A process that has ended has no tables.
TEST_F(Multicast, OnlyAMemberNeedsTheTables)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    SocketLook look;
    look.domain = AF_INET;
    GroupTables().look_at(fd_.get(), Proc(child), look);
    EXPECT_EQ(look.problem, "");
    ASSERT_TRUE(join(four));
    GroupTables().look_at(fd_.get(), Proc(child), look);
    EXPECT_NE(look.problem.find("does not tell the groups"), std::string::npos) << look.problem;
}

// A socket that is bound to an interface may choose no other one to send to groups.
TEST_F(Multicast, TheInterfaceToSendComesBeforeTheOneOfTheSocket)
{
    const auto place = [](int level, int name) {
        return std::ranges::find_if(image::socket_options, [&](const image::SocketOption &one) {
            return one.level == level && one.name == name;
        });
    };
    const auto bound = place(SOL_SOCKET, SO_BINDTODEVICE);
    EXPECT_LT(place(IPPROTO_IP, IP_MULTICAST_IF), bound);
    EXPECT_LT(place(IPPROTO_IPV6, IPV6_MULTICAST_IF), bound);
}

TEST_F(MulticastOf6, TheInterfaceToSendIsKnownByItsName)
{
    if (!fd_)
        GTEST_SKIP() << "no IPv6 here";
    uint64_t value = 1;
    ASSERT_TRUE(image::read_socket_option(fd_.get(), IPPROTO_IPV6, IPV6_MULTICAST_IF, value));
    EXPECT_EQ(value, 0u);
    ASSERT_EQ(image::set_socket_option(fd_.get(), IPPROTO_IPV6, IPV6_MULTICAST_IF,
                                       image::interface_value("lo")),
              0);
    ASSERT_TRUE(image::read_socket_option(fd_.get(), IPPROTO_IPV6, IPV6_MULTICAST_IF, value));
    EXPECT_EQ(value, image::interface_value("lo"));
    EXPECT_EQ(image::set_socket_option(fd_.get(), IPPROTO_IPV6, IPV6_MULTICAST_IF,
                                       image::interface_value("not-there")),
              ENODEV);
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
