// SPDX-License-Identifier: Apache-2.0
#include "restore/connected_pair.hpp"

#include "../plain_user.hpp"
#include "../scratch.hpp"
#include "restore/choosing_ids.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

SocketName abstract(const std::string &text)
{
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    memcpy(name.sun_path + 1, text.data(), text.size());
    return SocketName(image::Bytes(reinterpret_cast<const uint8_t *>(&name),
                                   offsetof(sockaddr_un, sun_path) + 1 + text.size()));
}

// A client that connects again whenever it is sent away.
[[noreturn]] void crowd(const SocketName &name, int met)
{
    for (bool first = true;; first = false) {
        const Fd one(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (connect(one.get(), name.get(), name.size) == 0 && first && write(met, "m", 1) != 1)
            _exit(1);
        char end;
        static_cast<void>(!read(one.get(), &end, 1)); // until it is sent away
    }
}

class ConnectedPairTest : public testing::Test
{
  protected:
    void SetUp() override
    {
        listener_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        ASSERT_EQ(0, bind(listener_.get(), name_.get(), name_.size));
        ASSERT_EQ(0, listen(listener_.get(), 0));
    }
    void TearDown() override
    {
        for (const pid_t client : clients_) {
            kill(client, SIGKILL);
            waitpid(client, nullptr, 0);
        }
    }
    void add_client()
    {
        int met[2];
        ASSERT_EQ(0, pipe(met));
        const pid_t client = fork();
        if (client == 0)
            crowd(name_, met[1]);
        clients_.push_back(client);
        close(met[1]);
        char word;
        EXPECT_EQ(1, read(met[0], &word, 1)); // it stands in the queue
        close(met[0]);
    }
    Result<ConnectedPair> connect_it(image::Bytes caller = {}, const CallerMaker &as = {})
    {
        return connect_pair(listener_.get(), name_, SOCK_STREAM, caller, as);
    }
    // By another process, whose deed is another one if that is wanted; it has this id.
    Result<ConnectedPair> connect_as(pid_t &pid, const Namesake::Deed &instead = {})
    {
        pid = fork(); // the next one to have its id, after all others
        if (pid == 0)
            _exit(0);
        waitpid(pid, nullptr, 0);
        return connect_it({}, [&](const Namesake::Deed &deed) -> std::optional<Namesake> {
            const Ids none;
            Result<Namesake> made =
                Namesake::make(pid, {}, {make_process, none}, instead ? instead : deed);
            EXPECT_TRUE(made) << made.error().text();
            return made ? std::optional<Namesake>(std::move(*made)) : std::nullopt;
        });
    }

    SocketName name_ = abstract("cryo-test-pair." + std::to_string(getpid()));
    Fd listener_;
    std::vector<pid_t> clients_;
};

void expect_pair(const Result<ConnectedPair> &pair)
{
    ASSERT_TRUE(pair) << pair.error().text();
    char got = 0;
    EXPECT_EQ(1, write(pair->two.get(), "x", 1));
    EXPECT_EQ(1, read(pair->one.get(), &got, 1));
    EXPECT_EQ('x', got);
}

TEST_F(ConnectedPairTest, HasBothEnds)
{
    expect_pair(connect_it());
}

TEST_F(ConnectedPairTest, IsMadeWhateverTheModeOfTheFileForbids)
{
    const Scratch dir;
    const std::string path = dir / "socket";
    EXPECT_TRUE(holds_for_plain_user(dir.path().string(), [&] {
        sockaddr_un address = {};
        address.sun_family = AF_UNIX;
        memcpy(address.sun_path, path.c_str(), path.size());
        const SocketName name(
            image::Bytes(reinterpret_cast<const uint8_t *>(&address), sizeof(address)));
        const Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        struct stat after = {};
        return bind(listener.get(), name.get(), name.size) == 0 && chmod(path.c_str(), 0) == 0 &&
               listen(listener.get(), 1) == 0 &&
               connect_pair(listener.get(), name, SOCK_STREAM, {}, {}) &&
               stat(path.c_str(), &after) == 0 && (after.st_mode & 07777) == 0;
    }));
}

TEST_F(ConnectedPairTest, CallerHasItsName)
{
    const SocketName own = abstract("cryo-test-caller." + std::to_string(getpid()));
    const auto *bytes = reinterpret_cast<const uint8_t *>(own.get());
    const Result<ConnectedPair> pair = connect_it(image::Bytes(bytes, own.size));
    expect_pair(pair);
    sockaddr_storage peer = {};
    socklen_t size = sizeof(peer);
    ASSERT_EQ(0, getpeername(pair->one.get(), reinterpret_cast<sockaddr *>(&peer), &size));
    ASSERT_EQ(own.size, size);
    EXPECT_EQ(0, memcmp(&peer, own.get(), size));
}

pid_t named_by(const Fd &socket)
{
    ucred peer = {};
    socklen_t size = sizeof(peer);
    EXPECT_EQ(0, getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size));
    return peer.pid;
}

TEST_F(ConnectedPairTest, AcceptedEndNamesWhoeverHasConnected)
{
    if (!may_choose_ids(false))
        GTEST_SKIP() << "ids cannot be chosen here";
    pid_t pid = 0;
    const Result<ConnectedPair> pair = connect_as(pid);
    expect_pair(pair);
    ASSERT_TRUE(pair);
    EXPECT_EQ(pid, named_by(pair->one));
    EXPECT_EQ(getpid(), named_by(pair->two));
}

TEST_F(ConnectedPairTest, ConnectsItselfWhereTheOtherOneMayNot)
{
    if (!may_choose_ids(false))
        GTEST_SKIP() << "ids cannot be chosen here";
    pid_t pid = 0;
    const Result<ConnectedPair> pair =
        connect_as(pid, [](int, Namesake::Made &) -> long { return -EACCES; });
    expect_pair(pair);
    ASSERT_TRUE(pair);
    EXPECT_EQ(getpid(), named_by(pair->one));
}

// The queue of this listener has room for one.
TEST_F(ConnectedPairTest, OthersInItsQueueAreSentAway)
{
    add_client();
    alarm(20);
    expect_pair(connect_it());
    alarm(0);
}

TEST_F(ConnectedPairTest, NobodyListens)
{
    const SocketName other = abstract("cryo-test-nobody." + std::to_string(getpid()));
    const Result<ConnectedPair> pair = connect_pair(listener_.get(), other, SOCK_STREAM, {});
    ASSERT_FALSE(pair);
    EXPECT_EQ(ECONNREFUSED, pair.error().code());
}

} // namespace

} // namespace cryo::restore
