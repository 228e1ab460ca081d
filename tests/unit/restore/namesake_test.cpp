// SPDX-License-Identifier: Apache-2.0
#include "restore/namesake.hpp"

#include "restore/choosing_ids.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

const Ids no_ids;
const Namesake::Maker maker = {make_process, no_ids};

// An id that the kernel gives nobody before it has given all others.
pid_t free_id()
{
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, nullptr, 0);
    return child;
}

ucred peer_of(const Fd &socket)
{
    ucred peer = {};
    socklen_t size = sizeof(peer);
    EXPECT_EQ(0, getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size));
    return peer;
}

long make_pair(int kind, Namesake::Made &made)
{
    return sys::call(SYS_socketpair, AF_UNIX, kind, 0, made.data());
}

class NamesakeTest : public testing::Test
{
  protected:
    void SetUp() override
    {
        if (!may_choose_ids(false))
            GTEST_SKIP() << "ids cannot be chosen here";
    }
    const pid_t pid_ = free_id();
};

TEST_F(NamesakeTest, IsNamedAlsoWhenItHasEnded)
{
    std::vector<Fd> ends;
    {
        Result<Namesake> one = Namesake::make(pid_, {}, maker, make_pair);
        ASSERT_TRUE(one) << one.error().text();
        EXPECT_EQ(0, one->act(SOCK_STREAM, ends));
        EXPECT_EQ(0, one->act(SOCK_DGRAM, ends));
    }
    EXPECT_EQ(-1, kill(pid_, 0));
    EXPECT_EQ(ESRCH, errno);
    ASSERT_EQ(4u, ends.size());
    for (const Fd &end : ends)
        EXPECT_EQ(pid_, peer_of(end).pid);
    EXPECT_EQ(1, write(ends[0].get(), "x", 1));
    char got = 0;
    EXPECT_EQ(1, read(ends[1].get(), &got, 1));
}

TEST_F(NamesakeTest, HasOurUser)
{
    std::vector<Fd> ends;
    Result<Namesake> one = Namesake::make(pid_, {4713}, maker, make_pair);
    ASSERT_TRUE(one) << one.error().text();
    EXPECT_EQ(pid_, one->pid());
    ASSERT_EQ(0, one->act(SOCK_STREAM, ends));
    EXPECT_EQ(geteuid(), peer_of(ends.at(0)).uid);
    EXPECT_EQ(getegid(), peer_of(ends.at(0)).gid);
}

TEST_F(NamesakeTest, TellsWhyItsDeedHasFailed)
{
    Result<Namesake> one =
        Namesake::make(pid_, {}, maker, [](int, Namesake::Made &) -> long { return -EACCES; });
    ASSERT_TRUE(one) << one.error().text();
    EXPECT_EQ(EACCES, one->act());
    EXPECT_EQ(EACCES, one->act());
}

// Killed, its maker cannot end it any more.
TEST_F(NamesakeTest, EndsWithItsMakerAlsoWhereItIsStopped)
{
    ASSERT_EQ(0, prctl(PR_SET_CHILD_SUBREAPER, 1));
    const pid_t its_maker = fork();
    if (its_maker == 0) {
        Result<Namesake> one = Namesake::make(pid_, {}, maker, make_pair);
        siginfo_t info = {};
        std::vector<Fd> ends; // it answers: it has begun to live
        if (one && one->act(SOCK_STREAM, ends) == 0 && kill(pid_, SIGSTOP) == 0)
            waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WNOWAIT);
        kill(getpid(), SIGKILL);
    }
    EXPECT_EQ(its_maker, waitpid(its_maker, nullptr, 0));
    int status = 0;
    EXPECT_EQ(pid_, waitpid(pid_, &status, 0));
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(NamesakeTest, TakesNoIdThatIsInUse)
{
    EXPECT_FALSE(Namesake::make(getpid(), {}, maker, make_pair));
}

} // namespace

} // namespace cryo::restore
