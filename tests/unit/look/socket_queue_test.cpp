// SPDX-License-Identifier: Apache-2.0
#include "base/passing.hpp"
#include "look/socket_look.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

struct Pair {
    Fd from, to;

    explicit Pair(int kind)
    {
        int fds[2] = {-1, -1};
        EXPECT_EQ(0, socketpair(AF_UNIX, kind | SOCK_CLOEXEC, 0, fds));
        from.reset(fds[0]);
        to.reset(fds[1]);
    }
    Result<SocketQueue> peek() const
    {
        struct stat status;
        EXPECT_EQ(0, fstat(to.get(), &status));
        Result<SocketLook> look = look_at_socket(to.get(), status.st_ino);
        if (!look)
            return look.error();
        return peek_queue(to.get(), *look);
    }
    void send(const std::string &bytes, const std::vector<int> &descriptors) const
    {
        ASSERT_EQ(static_cast<ssize_t>(bytes.size()), send_with(from.get(), bytes, descriptors));
    }
};

ino_t inode(int fd)
{
    struct stat status = {};
    fstat(fd, &status);
    return status.st_ino;
}

} // namespace

TEST(SocketQueue, DescriptorsAreFoundWithTheirBytes)
{
    constexpr int most = 253; // descriptors that one message can carry
    std::mt19937 random(4);
    const auto upto = [&random](unsigned last) {
        return static_cast<unsigned>(random() % (last + 1));
    };
    for (int turn = 0; turn < 60; turn++) {
        const int kind = turn % 3 == 0 ? SOCK_SEQPACKET : turn % 3 == 1 ? SOCK_DGRAM : SOCK_STREAM;
        const bool stream = kind == SOCK_STREAM;
        const Pair pair(kind);
        const Fd file(open("/", O_PATH | O_CLOEXEC));
        std::string bytes;
        std::vector<PassedDescriptors> sent;
        std::vector<size_t> counts;
        const unsigned messages = upto(9);
        for (unsigned i = 0; i < messages; i++) {
            const std::string some(1 + upto(i % 2 == 0 ? 3 : 300), static_cast<char>('a' + i));
            const size_t count = upto(2) == 0 ? 0 : i == 4 ? most : upto(3);
            if (count != 0) {
                PassedDescriptors passed;
                passed.position = bytes.size();
                passed.size = some.size();
                passed.packet = stream ? 0 : i;
                sent.push_back(std::move(passed));
                counts.push_back(count);
            }
            pair.send(some, std::vector<int>(count, file.get()));
            bytes += some;
        }
        for (int again = 0; again < 2; again++) { // peeking leaves everything in the queue
            Result<SocketQueue> queue = pair.peek();
            ASSERT_TRUE(queue) << queue.error().text();
            EXPECT_EQ(bytes, queue->bytes);
            EXPECT_EQ(stream ? 0 : messages, queue->packets.size());
            ASSERT_EQ(sent.size(), queue->passed.size());
            for (size_t i = 0; i < sent.size(); i++) {
                const PassedDescriptors &passed = queue->passed[i];
                EXPECT_EQ(sent[i].position, passed.position);
                EXPECT_EQ(sent[i].size, passed.size);
                EXPECT_EQ(sent[i].packet, passed.packet);
                ASSERT_EQ(counts[i], passed.descriptors.size());
                EXPECT_EQ(inode(file.get()), inode(passed.descriptors.back().get()));
            }
        }
    }
}

// The part of a message that was read is no longer in the queue, nor are its descriptors.
TEST(SocketQueue, AMessageThatWasBegunHasNone)
{
    const Pair pair(SOCK_STREAM);
    const Fd file(open("/", O_PATH | O_CLOEXEC));
    pair.send("ab", {file.get()});
    pair.send("cd", {file.get()});
    char byte = 0;
    ASSERT_EQ(1, read(pair.to.get(), &byte, 1));
    Result<SocketQueue> queue = pair.peek();
    ASSERT_TRUE(queue) << queue.error().text();
    EXPECT_EQ("bcd", queue->bytes);
    ASSERT_EQ(1U, queue->passed.size());
    EXPECT_EQ(1U, queue->passed[0].position);
    EXPECT_EQ(2U, queue->passed[0].size);
}

TEST(SocketQueue, AResetStaysBehindTheBytes)
{
    Pair pair(SOCK_STREAM);
    const Fd file(open("/", O_PATH | O_CLOEXEC));
    ASSERT_EQ(1, write(pair.to.get(), "x", 1));
    pair.send("in ", {});
    pair.send("front", {file.get()});
    pair.from.reset();
    for (int again = 0; again < 2; again++) {
        Result<SocketQueue> queue = pair.peek();
        ASSERT_TRUE(queue) << queue.error().text();
        EXPECT_TRUE(queue->reset);
        EXPECT_EQ("in front", queue->bytes);
        ASSERT_EQ(1U, queue->passed.size());
        EXPECT_EQ(3U, queue->passed[0].position);
    }
    char bytes[9];
    ASSERT_EQ(3, read(pair.to.get(), bytes, 3));
    ASSERT_EQ(5, read(pair.to.get(), bytes, 9));
    ASSERT_EQ(-1, read(pair.to.get(), bytes, 9));
    EXPECT_EQ(ECONNRESET, errno);
}

TEST(SocketQueue, AResetInFrontOfPacketsIsNotLookedAt)
{
    Pair pair(SOCK_SEQPACKET);
    pair.send("packet", {});
    ASSERT_EQ(1, write(pair.to.get(), "x", 1));
    pair.from.reset();
    const Result<SocketQueue> queue = pair.peek();
    ASSERT_FALSE(queue);
    EXPECT_EQ(ENOTSUP, queue.error().code());
    char byte;
    ASSERT_EQ(-1, read(pair.to.get(), &byte, 1));
    EXPECT_EQ(ECONNRESET, errno);
}

// Nor does an empty packet end the queue.
TEST(SocketQueue, EmptyPacketsOfWhoIsGoneAreThere)
{
    for (const int kind : {SOCK_SEQPACKET, SOCK_DGRAM}) {
        Pair pair(kind);
        for (const char *text : {"a", "", "bc", "", ""})
            pair.send(text, {});
        pair.from.reset();
        Result<SocketQueue> queue = pair.peek();
        ASSERT_TRUE(queue) << queue.error().text();
        EXPECT_EQ((std::vector<uint32_t>{1, 0, 2, 0, 0}), queue->packets) << kind;
        int told = -1;
        socklen_t size = sizeof(told);
        ASSERT_EQ(0, getsockopt(pair.to.get(), SOL_SOCKET, SO_PASSCRED, &told, &size));
        EXPECT_EQ(0, told);
    }
}

// The kernel shows an empty packet only once to a reader that peeks at an offset.
TEST(SocketQueue, AnEmptyPacketIsNotTakenForNoneLater)
{
    int ends[2];
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends));
    const Fd one(ends[0]), other(ends[1]);
    for (const char *text : {"a", "", "b"})
        ASSERT_EQ(static_cast<ssize_t>(strlen(text)), send(one.get(), text, strlen(text), 0));
    const auto peek = [&other] {
        Result<SocketLook> look = look_at_socket(other.get(), inode(other.get()));
        return look ? peek_queue(other.get(), *look) : Result<SocketQueue>(look.error());
    };
    Result<SocketQueue> first = peek();
    ASSERT_TRUE(first) << first.error().text();
    EXPECT_EQ((std::vector<uint32_t>{1, 0, 1}), first->packets);
    Result<SocketQueue> second = peek();
    ASSERT_FALSE(second);
    EXPECT_EQ(ENOTSUP, second.error().code());
    char byte;
    for (const ssize_t size : {1, 0, 1})
        ASSERT_EQ(size, recv(other.get(), &byte, 1, MSG_DONTWAIT));
    Result<SocketQueue> empty = peek();
    ASSERT_TRUE(empty) << empty.error().text();
    EXPECT_TRUE(empty->packets.empty());
    ASSERT_EQ(1, send(one.get(), "c", 1, 0));
    for (int i = 0; i < 2; i++) {
        Result<SocketQueue> again = peek();
        ASSERT_TRUE(again) << again.error().text();
        EXPECT_EQ((std::vector<uint32_t>{1}), again->packets);
    }
}

// Linux before 5.15 has no urgent data in UNIX sockets, nor has a kernel without AF_UNIX_OOB.
TEST(SocketQueue, UrgentDataIsRefusedUntilItIsRead)
{
    const Pair pair(SOCK_STREAM);
    pair.send("before", {});
    if (::send(pair.from.get(), "!", 1, MSG_OOB) < 0 && errno == EOPNOTSUPP)
        GTEST_SKIP() << "no MSG_OOB in UNIX sockets";
    const Result<SocketQueue> refused = pair.peek();
    ASSERT_FALSE(refused);
    EXPECT_EQ(ENOTSUP, refused.error().code());
    EXPECT_NE(std::string::npos, refused.error().text().find("MSG_OOB"));
    char byte = 0;
    ASSERT_EQ(1, recv(pair.to.get(), &byte, 1, MSG_OOB));
    EXPECT_EQ('!', byte);
    const Result<SocketQueue> queue = pair.peek();
    ASSERT_TRUE(queue) << queue.error().text();
    EXPECT_EQ("before", queue->bytes);
}

// Even if the senders have gone.
TEST(SocketQueue, SendersAreToldByTheirNames)
{
    const auto named = [](const char *name, sockaddr_un &address, socklen_t &size) {
        const std::string whole = std::string(1, '\0') + name + std::to_string(getpid());
        address = {};
        address.sun_family = AF_UNIX;
        memcpy(address.sun_path, whole.data(), whole.size());
        size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + whole.size());
        Fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(0, bind(fd.get(), reinterpret_cast<const sockaddr *>(&address), size));
        return fd;
    };
    sockaddr_un to, from;
    socklen_t to_size, from_size;
    const Fd receiver = named("receiver", to, to_size);
    Fd sender = named("sender", from, from_size);
    const Fd nobody(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    for (const int fd : {sender.get(), nobody.get(), sender.get()})
        EXPECT_EQ(1, sendto(fd, "x", 1, 0, reinterpret_cast<const sockaddr *>(&to), to_size));
    sender.reset();
    Result<SocketLook> look = look_at_socket(receiver.get(), inode(receiver.get()));
    ASSERT_TRUE(look);
    Result<SocketQueue> queue = peek_queue(receiver.get(), *look);
    ASSERT_TRUE(queue) << queue.error().text();
    const std::string name(reinterpret_cast<const char *>(&from), from_size);
    EXPECT_EQ((std::vector<std::string>{name, "", name}), queue->senders);
}

} // namespace cryo::capture
