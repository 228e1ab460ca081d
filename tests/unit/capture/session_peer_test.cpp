// SPDX-License-Identifier: Apache-2.0
#include "capture/session_peer.hpp"

#include "base/fd.hpp"

#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
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
    const std::string offer = peers.offer(cat.pid(), {}, cat.input());
    EXPECT_NE(std::string::npos, offer.find(fmt::format("process {}", cat.pid()))) << offer;
    cat.end();
    EXPECT_EQ(offer, peers.offer(cat.pid(), {}, cat.input()));
}

TEST(SessionPeers, MembersAreNotOffered)
{
    const Cat cat;
    EXPECT_EQ("", SessionsPeers().offer(cat.pid(), {cat.pid()}, cat.input()));
}

} // namespace

} // namespace cryo::capture
