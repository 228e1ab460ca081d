// SPDX-License-Identifier: Apache-2.0
#include "look/tcp_look.hpp"
#include "look/unaccepted.hpp"
#include "no_more_descriptors.hpp"

#include <cerrno>
#include <chrono>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

namespace cryo::capture {

namespace {

union Address {
    sockaddr any;
    sockaddr_in four;
    sockaddr_in6 six;
};

struct Connection {
    Fd listener, accepted, caller;

    // An IPv4 client of a listener of this family.
    explicit Connection(int family)
        : listener(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)),
          caller(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))
    {
        Address at = {};
        at.any.sa_family = static_cast<sa_family_t>(family);
        if (family == AF_INET)
            at.four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(at);
        EXPECT_EQ(0, bind(listener.get(), &at.any, size));
        EXPECT_EQ(0, listen(listener.get(), 1));
        EXPECT_EQ(0, getsockname(listener.get(), &at.any, &size));
        sockaddr_in to = {};
        to.sin_family = AF_INET;
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        to.sin_port = family == AF_INET ? at.four.sin_port : at.six.sin6_port;
        EXPECT_EQ(0, connect(caller.get(), reinterpret_cast<sockaddr *>(&to), sizeof(to)));
        accepted.reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        EXPECT_TRUE(accepted);
    }
    void send(std::string_view text, int flags = 0) const
    {
        EXPECT_EQ(static_cast<ssize_t>(text.size()),
                  ::send(caller.get(), text.data(), text.size(), flags));
    }
};

SocketLook look_at(const Fd &fd)
{
    Result<SocketLook> look = look_at_socket(fd.get(), 0);
    EXPECT_TRUE(look);
    return look ? *look : SocketLook();
}

bool has_six()
{
    const Fd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    Address any = {};
    any.any.sa_family = AF_INET6;
    return fd && bind(fd.get(), &any.any, sizeof(any)) == 0;
}

} // namespace

TEST(TcpLook, EndsOfConnectionsFindEachOther)
{
    for (const int family : {AF_INET, AF_INET6}) {
        if (family == AF_INET6 && !has_six())
            continue;
        const Connection one(family), two(family);
        const SocketLook all[] = {look_at(one.caller),   look_at(two.accepted),
                                  look_at(two.listener), look_at(one.accepted),
                                  look_at(two.caller),   look_at(one.listener)};
        std::vector<const SocketLook *> looks;
        for (const SocketLook &look : all)
            looks.push_back(&look);
        const std::vector<std::pair<size_t, size_t>> expected = {{3, 0}, {1, 4}};
        EXPECT_EQ(expected, tcp_pairs(looks));
        looks.erase(looks.begin() + 3); // its peer is not among the sockets
        EXPECT_EQ(1U, tcp_pairs(looks).size());
    }
}

TEST(TcpLook, WhatWaitsIsSeenAndStays)
{
    const Connection one(AF_INET);
    const std::string text(30'000, 'x');
    one.send(text);
    ASSERT_TRUE(await_delivery(one.caller.get(), one.accepted.get()));
    for (int turn = 0; turn < 2; turn++) {
        const Result<std::string> seen = peek_tcp(one.accepted.get());
        ASSERT_TRUE(seen);
        EXPECT_EQ(text, *seen);
        const Result<std::string> nothing = peek_tcp(one.caller.get());
        ASSERT_TRUE(nothing);
        EXPECT_EQ("", *nothing);
    }
    char byte = 0;
    EXPECT_EQ(1, recv(one.accepted.get(), &byte, 1, 0));
    const int offset = 7; // the program's own: peeking neither uses nor changes it
    const bool has_offset =
        setsockopt(one.accepted.get(), SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset)) == 0;
    const Result<std::string> rest = peek_tcp(one.accepted.get());
    ASSERT_TRUE(rest);
    EXPECT_EQ(text.size() - 1, rest->size());
    int now = 0;
    socklen_t size = sizeof(now);
    if (has_offset) {
        EXPECT_EQ(0, getsockopt(one.accepted.get(), SOL_SOCKET, SO_PEEK_OFF, &now, &size));
        EXPECT_EQ(offset, now);
    }
}

TEST(TcpLook, HalvesThatWereClosed)
{
    const Connection one(AF_INET);
    one.send("the end");
    EXPECT_EQ(0U, *tcp_shutdown(one.caller.get()));
    ASSERT_EQ(0, shutdown(one.caller.get(), SHUT_WR));
    ASSERT_TRUE(await_delivery(one.caller.get(), one.accepted.get()));
    EXPECT_EQ(2U, *tcp_shutdown(one.caller.get()));
    EXPECT_EQ(0U, *tcp_shutdown(one.accepted.get()));
    EXPECT_EQ("the end", *peek_tcp(one.accepted.get()));
    ASSERT_EQ(0, shutdown(one.caller.get(), SHUT_RD));
    EXPECT_EQ(3U, *tcp_shutdown(one.caller.get()));
    ASSERT_EQ(0, shutdown(one.accepted.get(), SHUT_WR));
    EXPECT_FALSE(tcp_shutdown(one.caller.get())); // nothing is open any more
}

TEST(TcpLook, OneThatWasShutDownHasEnded)
{
    const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_FALSE(look_at(fd).ended);
    EXPECT_EQ(-1, shutdown(fd.get(), SHUT_RDWR)); // ENOTCONN, but it takes effect
    EXPECT_TRUE(look_at(fd).ended);
    EXPECT_FALSE(look_at(fd).unread);
}

TEST(TcpLook, WhatCannotBeSeenIsSaid)
{
    const Connection full(AF_INET);
    const std::string piece(65536, 'x');
    while (send(full.caller.get(), piece.data(), piece.size(), MSG_DONTWAIT) > 0) {
    }
    const Result<void> delivered = await_delivery(full.caller.get(), full.accepted.get());
    ASSERT_FALSE(delivered);
    EXPECT_EQ(ENOTSUP, delivered.error().code());

    const Connection urgent(AF_INET);
    urgent.send("before");
    urgent.send("!", MSG_OOB);
    pollfd comes = {urgent.accepted.get(), POLLPRI, 0};
    ASSERT_EQ(1, poll(&comes, 1, -1));
    const Result<std::string> seen = peek_tcp(urgent.accepted.get());
    ASSERT_FALSE(seen);
    EXPECT_EQ(ENOTSUP, seen.error().code());
    // Even once read, urgent data hides what follows it.
    char byte = 0;
    EXPECT_EQ(1, recv(urgent.accepted.get(), &byte, 1, MSG_OOB));
    urgent.send("behind");
    ASSERT_TRUE(await_delivery(urgent.caller.get(), urgent.accepted.get()));
    EXPECT_FALSE(peek_tcp(urgent.accepted.get()));
    char before[6];
    EXPECT_EQ(6, recv(urgent.accepted.get(), before, sizeof(before), 0));
    EXPECT_FALSE(peek_tcp(urgent.accepted.get())); // the read position is at the mark
    char behind[6];
    EXPECT_EQ(6, recv(urgent.accepted.get(), behind, sizeof(behind), 0));
    EXPECT_TRUE(peek_tcp(urgent.accepted.get()));
}

namespace {

// A socket at which connections wait.
struct Listening {
    Fd fd;
    sockaddr_in at = {};

    Listening() : fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))
    {
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(at);
        EXPECT_EQ(0, bind(fd.get(), reinterpret_cast<const sockaddr *>(&at), size));
        EXPECT_EQ(0, listen(fd.get(), 4));
        EXPECT_EQ(0, getsockname(fd.get(), reinterpret_cast<sockaddr *>(&at), &size));
    }
    Fd call() const
    {
        Fd caller(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(0, connect(caller.get(), reinterpret_cast<const sockaddr *>(&at), sizeof(at)));
        return caller;
    }
    std::vector<Unaccepted> waiting(bool ordered) const
    {
        const SocketLook look = look_at(fd);
        const Result<UnacceptedQueue> queue = unaccepted_at(look);
        EXPECT_TRUE(queue);
        if (!queue)
            return {};
        EXPECT_EQ(look.waiting, queue->all.size());
        EXPECT_EQ(ordered, queue->ordered);
        return queue->all;
    }
};

} // namespace

TEST(Unaccepted, WhatWaitsInThemIsTold)
{
    const Listening server;
    EXPECT_TRUE(server.waiting(true).empty());
    Fd caller = server.call();
    const SocketLook look = look_at(caller);
    std::vector<Unaccepted> all = server.waiting(true);
    ASSERT_EQ(1U, all.size());
    EXPECT_EQ(0U, all[0].unread);
    EXPECT_FALSE(all[0].ended);
    EXPECT_TRUE(all[0].peer.same(InternetAddress(look.local)));
    EXPECT_TRUE(all[0].local.same(InternetAddress(look.peer)));
    ASSERT_EQ(0, shutdown(caller.get(), SHUT_WR));
    all = server.waiting(true);
    ASSERT_EQ(1U, all.size());
    EXPECT_EQ(0U, all[0].unread) << "the end is no byte";
    EXPECT_TRUE(all[0].ended);
    Result<bool> left = is_left_here(all[0], AF_INET);
    ASSERT_TRUE(left);
    EXPECT_FALSE(*left);
    {
        const NoMoreDescriptors none;
        left = is_left_here(all[0], AF_INET);
    }
    ASSERT_FALSE(left) << "the kernel could not be asked";
    EXPECT_EQ(EMFILE, left.error().code());
    caller.reset();
    all = server.waiting(true);
    ASSERT_EQ(1U, all.size());
    left = is_left_here(all[0], AF_INET);
    ASSERT_TRUE(left);
    EXPECT_TRUE(*left);
    const Fd accepted(accept4(server.fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(server.waiting(true).empty());

    const Fd writer = server.call();
    ASSERT_EQ(3, send(writer.get(), "abc", 3, 0));
    ASSERT_EQ(0, shutdown(writer.get(), SHUT_WR));
    all = server.waiting(true);
    ASSERT_EQ(1U, all.size());
    EXPECT_EQ(3U, all[0].unread);
}

// More than the ticks by which the kernel counts lie between them.
TEST(Unaccepted, TheFirstToComeIsTheFirst)
{
    const Listening server;
    std::vector<Fd> callers;
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(400));
        callers.push_back(server.call());
    }
    const std::vector<Unaccepted> all = server.waiting(true);
    ASSERT_EQ(callers.size(), all.size());
    for (size_t i = 0; i < all.size(); i++)
        EXPECT_TRUE(all[i].peer.same(InternetAddress(look_at(callers[i]).local))) << i;
}

} // namespace cryo::capture
