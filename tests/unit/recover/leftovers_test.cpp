// SPDX-License-Identifier: Apache-2.0
//
// Which children of a supervisor are the program's.
#include "recover/leftovers.hpp"

#include <csignal>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::recover {
namespace {

using Pids = std::set<pid_t>;

// A child that waits until it is ended.
class Child
{
  public:
    Child() : pid_(fork())
    {
        while (pid_ == 0)
            pause();
    }
    ~Child() { end(); }
    Child(const Child &) = delete;
    Child &operator=(const Child &) = delete;
    pid_t pid() const { return pid_; }
    void end()
    {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
        }
        pid_ = 0;
    }

  private:
    pid_t pid_;
};

TEST(Leftovers, AreTheChildrenThatHaveComeSince)
{
    const Child earlier;
    const Result<Leftovers> leftovers = Leftovers::begin();
    ASSERT_TRUE(leftovers) << leftovers.error().text();
    const Child later;
    EXPECT_EQ(*leftovers->all(), Pids{later.pid()});
}

// Whatever its file is by now: the package may have been upgraded, and a process that ends shows
// none.
TEST(Leftovers, AreNoKeepersWhichAreKnownByTheirNumbers)
{
    Result<Leftovers> leftovers = Leftovers::begin();
    ASSERT_TRUE(leftovers) << leftovers.error().text();
    Child keeper;
    const Child other;
    leftovers->add_keeper(keeper.pid());
    EXPECT_EQ(*leftovers->all(), Pids{other.pid()});
    EXPECT_EQ(*leftovers->savers(true), Pids{keeper.pid()});
    EXPECT_TRUE(leftovers->savers(false)->empty());
    const pid_t number = keeper.pid();
    kill(number, SIGKILL);
    siginfo_t info = {};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(number), &info, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(*leftovers->all(), Pids{other.pid()}) << "it has ended, and was not waited for";
    keeper.end();
    leftovers->waited_for(number);
    EXPECT_TRUE(leftovers->savers(true)->empty());
}

TEST(Leftovers, AreNotWhatTheSupervisorHasForItself)
{
    Result<Leftovers> leftovers = Leftovers::begin();
    ASSERT_TRUE(leftovers) << leftovers.error().text();
    Child own;
    const Child other;
    leftovers->add_own(own.pid());
    EXPECT_EQ(*leftovers->all(), Pids{other.pid()});
    EXPECT_EQ(*leftovers->going_on(), Pids{other.pid()});
    EXPECT_TRUE(leftovers->savers(true)->empty());
}

TEST(Leftovers, ThatHaveANumberWhichAKeeperHadAreNoKeepers)
{
    Result<Leftovers> leftovers = Leftovers::begin();
    ASSERT_TRUE(leftovers) << leftovers.error().text();
    Child keeper;
    const pid_t number = keeper.pid();
    leftovers->add_keeper(number);
    leftovers->waited_for(number);
    EXPECT_EQ(*leftovers->all(), Pids{number});
    keeper.end();
    leftovers->add_keeper(number); // told late: there is no such child any more
    const Child other;
    EXPECT_EQ(*leftovers->all(), Pids{other.pid()});
}

} // namespace
} // namespace cryo::recover
