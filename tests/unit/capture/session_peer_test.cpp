// SPDX-License-Identifier: Apache-2.0
#include "capture/session/session_peer.hpp"

#include "base/fd.hpp"
#include "look/peer_link.hpp"

#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

// cat, in a session of its own, as if cr_run had started it.
class Cat
{
  public:
    Cat()
    {
        int in[2], out[2];
        EXPECT_EQ(0, pipe2(in, O_CLOEXEC));
        EXPECT_EQ(0, pipe2(out, O_CLOEXEC));
        char name[] = "cat", preload[] = "PRELOADED=libcr_run.so";
        char *const arguments[] = {name, nullptr}, *const environment[] = {preload, nullptr};
        pid_ = fork();
        if (pid_ == 0) {
            if (setsid() > 0 && dup2(in[0], STDIN_FILENO) >= 0 && dup2(out[1], STDOUT_FILENO) >= 0)
                execvpe(name, arguments, environment);
            _exit(1);
        }
        close(in[0]);
        close(out[1]);
        to_.reset(in[1]);
        from_.reset(out[0]);
        char echo = 0; // it runs
        EXPECT_EQ(1, write(to_.get(), "x", 1));
        EXPECT_EQ(1, read(from_.get(), &echo, 1));
    }
    ~Cat()
    {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    Cat(const Cat &) = delete;
    Cat &operator=(const Cat &) = delete;

    // As a zombie it stays, without descriptors.
    void end() const
    {
        siginfo_t ended = {};
        EXPECT_EQ(0, kill(pid_, SIGKILL));
        EXPECT_EQ(0, waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT));
    }
    pid_t pid() const { return pid_; }
    // The pipe that it reads, as /proc/PID/fd has it.
    std::string input() const
    {
        struct stat status = {};
        EXPECT_EQ(0, fstat(to_.get(), &status));
        return fmt::format("pipe:[{}]", status.st_ino);
    }

  private:
    pid_t pid_ = -1;
    Fd to_, from_;
};

TEST(SessionPeers, AreLookedAtOnce)
{
    const Cat cat;
    SessionsPeers peers;
    const std::string offer = peers.offer(cat.pid(), {}, cat.input(), O_WRONLY);
    EXPECT_NE(std::string::npos, offer.find(fmt::format("process {}", cat.pid()))) << offer;
    cat.end();
    EXPECT_EQ(offer, peers.offer(cat.pid(), {}, cat.input(), O_WRONLY));
}

TEST(SessionPeers, MembersAreNotOffered)
{
    const Cat cat;
    EXPECT_EQ("", SessionsPeers().offer(cat.pid(), {cat.pid()}, cat.input(), O_WRONLY));
}

TEST(SessionPeers, TheSameEndOfAPipeIsNotTheOther)
{
    const Cat cat;
    SessionsPeers peers;
    EXPECT_EQ("", peers.offer(cat.pid(), {}, cat.input(), O_RDONLY));
    EXPECT_NE("", peers.offer(cat.pid(), {}, cat.input(), O_WRONLY));
}

// As a connection to another machine, whose port a server here has, too.
TEST(SessionPeers, AListenerIsNoPeer)
{
    const Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    socklen_t size = sizeof(at);
    ASSERT_EQ(0, bind(listener.get(), reinterpret_cast<sockaddr *>(&at), size));
    ASSERT_EQ(0, listen(listener.get(), 1));
    ASSERT_EQ(0, getsockname(listener.get(), reinterpret_cast<sockaddr *>(&at), &size));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    SocketLook look;
    look.domain = AF_INET;
    look.kind = SOCK_STREAM;
    look.peer.assign(reinterpret_cast<const char *>(&at), sizeof(at));
    at.sin_port = htons(1); // no client has it
    look.local.assign(reinterpret_cast<const char *>(&at), sizeof(at));
    const Result<std::string> link = link_of_peer(look);
    ASSERT_TRUE(link);
    EXPECT_EQ("", *link);
}

} // namespace

} // namespace cryo::capture
