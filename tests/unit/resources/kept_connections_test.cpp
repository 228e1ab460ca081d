// SPDX-License-Identifier: Apache-2.0
//
// Connections that wait for a restart: what the packet filter is told, and images that nobody has
// saved. What needs a privilege is in system.commands.connections and half_closed.
#include "resources/socket/packet_hold.hpp"
#include "resources/socket/tcp_repair.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <gtest/gtest.h>
#include <initializer_list>
#include <netinet/tcp.h>
#include <string>

namespace cryo::resources {
namespace {

using testing::Test;

std::string address(const char *host, uint16_t port)
{
    sockaddr_in in = {};
    sockaddr_in6 in6 = {};
    if (inet_pton(AF_INET, host, &in.sin_addr) == 1) {
        in.sin_family = AF_INET;
        in.sin_port = htons(port);
        return {reinterpret_cast<const char *>(&in), sizeof(in)};
    }
    EXPECT_EQ(1, inet_pton(AF_INET6, host, &in6.sin6_addr));
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(port);
    return {reinterpret_cast<const char *>(&in6), sizeof(in6)};
}

TcpEnd end_of(const std::string &local, const std::string &peer)
{
    return {TcpAddress(image::as_bytes(local)), TcpAddress(image::as_bytes(peer))};
}

TEST(PacketHold, DropsBothDirectionsOfEachConnection)
{
    const std::string rules = rules_to_hold(
        0xabc, {end_of(address("10.1.2.3", 4000), address("10.1.2.4", 80)),
                end_of(address("::1", 4001), address("::2", 81)),
                end_of(address("::ffff:10.1.2.3", 4002), address("::ffff:10.1.2.5", 82))});
    for (const char *line :
         {"create table inet cryo_held_0000000000000abc\n",
          "add element inet cryo_held_0000000000000abc v4 { 10.1.2.3 . 4000 . 10.1.2.4 . 80 }\n",
          "add element inet cryo_held_0000000000000abc v6 { ::1 . 4001 . ::2 . 81 }\n",
          "add element inet cryo_held_0000000000000abc v4 { 10.1.2.3 . 4002 . 10.1.2.5 . 82 }\n",
          "coming { type filter hook input priority 350; }\n",
          "going { type filter hook output priority -350; }\n",
          "coming meta mark 0x00000abc accept\n", "going meta mark 0x00000abc accept\n",
          "coming ip daddr . tcp dport . ip saddr . tcp sport @v4 drop\n",
          "coming ip6 daddr . tcp dport . ip6 saddr . tcp sport @v6 drop\n",
          "going ip saddr . tcp sport . ip daddr . tcp dport @v4 drop\n",
          "going ip6 saddr . tcp sport . ip6 daddr . tcp dport @v6 drop\n"})
        EXPECT_NE(std::string::npos, rules.find(line)) << line << "is not in\n" << rules;
}

TEST(PacketHold, ItsMarkIsAMark)
{
    EXPECT_EQ(0xdef0'1234, mark_of(0x1234'5678'def0'1234));
    EXPECT_NE(0U, mark_of(uint64_t(5) << 32));
}

struct Forged : Test {
    std::string local = address("127.0.0.1", 4000), peer = address("127.0.0.1", 80);
    image::Socket socket;
    image::KeptConnection kept;

    Forged()
    {
        socket.domain = AF_INET;
        socket.kind = SOCK_STREAM;
        socket.state = image::SocketState::kept;
        socket.local = image::as_bytes(local);
        socket.peer = image::as_bytes(peer);
        kept.mss = 1460;
        kept.size = 4;
        kept.unsent = 2;
    }
    int refusal() const
    {
        const Result<Fd> made = put_tcp(socket, kept, "", "abcd");
        return made ? 0 : made.error().code();
    }
};

TEST_F(Forged, NumbersThatNoConnectionHasAreRefused)
{
    const image::KeptConnection right = kept;
    kept.mss = 0;
    EXPECT_EQ(EINVAL, refusal());
    kept = right;
    kept.send_scale = 15;
    EXPECT_EQ(EINVAL, refusal());
    kept = right;
    kept.receive_scale = 1U << 16;
    EXPECT_EQ(EINVAL, refusal());
    kept = right;
    kept.unsent = 5;
    EXPECT_EQ(EINVAL, refusal());
    kept = right;
    kept.size = 5;
    EXPECT_EQ(EINVAL, refusal());
    kept = right;
    kept.send_room = ~0U;
    EXPECT_EQ(EINVAL, refusal());
    kept = right;
    socket.shutdown = 4;
    EXPECT_EQ(EINVAL, refusal());
}

TEST_F(Forged, StatesThatNoConnectionHasAreRefused)
{
    constexpr uint32_t beyond = TCP_CLOSING + 1;
    for (const uint32_t state : std::initializer_list<uint32_t>{
             TCP_ESTABLISHED, TCP_SYN_RECV, TCP_FIN_WAIT1, TCP_CLOSE, TCP_LISTEN, beyond}) {
        kept.state = state;
        EXPECT_EQ(EINVAL, refusal()) << state;
    }
    kept.state = TCP_SYN_SENT; // with bytes that it has sent
    EXPECT_EQ(EINVAL, refusal());
    // Without an end of its own.
    for (const uint32_t state : std::initializer_list<uint32_t>{TCP_LAST_ACK, TCP_CLOSING}) {
        kept.state = state;
        EXPECT_EQ(EINVAL, refusal()) << state;
    }
    kept.state = TCP_CLOSE_WAIT;
    socket.shutdown = 2;
    EXPECT_EQ(EINVAL, refusal());
}

TEST_F(Forged, AddressesOfAnotherFamilyAreRefused)
{
    socket.domain = AF_INET6;
    EXPECT_EQ(EINVAL, refusal());
    socket.domain = AF_INET;
    socket.peer = {};
    EXPECT_EQ(EINVAL, refusal());
}

} // namespace
} // namespace cryo::resources
