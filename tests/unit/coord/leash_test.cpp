// SPDX-License-Identifier: Apache-2.0
//
// Ends that the kernel brings about: of a process whose time has come, and of one whose daemon
// ends.
#include "base/clock.hpp"
#include "base/fd.hpp"
#include "coord/leash.hpp"
#include "coord/leashes.hpp"
#include "coord/loop.hpp"
#include "coord/own_end.hpp"

#include <csignal>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::coord {
namespace {

// Of a child that does `what` and then stands still, with all signals blocked.
template <class What>
pid_t child_that(const What &what)
{
    const pid_t child = fork();
    if (child != 0)
        return child;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, nullptr);
    if (!what())
        _exit(1);
    for (;;)
        pause();
}

int signal_that_ended(pid_t child)
{
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

TEST(OwnEnd, ComesToAProcessThatIsStopped)
{
    const pid_t child = child_that([] {
        Result<OwnEnd> end = OwnEnd::make();
        if (!end || !end->at(clock_ns(CLOCK_BOOTTIME) + 3'600'000'000'000) ||
            !end->at(clock_ns(CLOCK_BOOTTIME) + 20'000'000)) // the last one counts
            return false;
        raise(SIGSTOP);
        return true;
    });
    EXPECT_EQ(signal_that_ended(child), SIGKILL);
}

TEST(OwnEnd, ThatIsPastComesAtOnce)
{
    const pid_t child = child_that([] {
        Result<OwnEnd> end = OwnEnd::make();
        return end && end->at(1);
    });
    EXPECT_EQ(signal_that_ended(child), SIGKILL);
}

// A daemon that ends may wait for a copy of a rank which waits for a disk, and has its ranks still.
TEST(OwnEnd, ComesAlsoWhenNothingHoldsItAnyMore)
{
    const pid_t child = child_that([] {
        {
            Result<OwnEnd> end = OwnEnd::make();
            if (!end || !end->at(clock_ns(CLOCK_BOOTTIME) + 20'000'000))
                return false;
        }
        poll(nullptr, 0, 10'000);
        return false;
    });
    EXPECT_EQ(signal_that_ended(child), SIGKILL);
}

struct Pair {
    Fd own;
    Fd of_child;
};

Pair connected()
{
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    return {Fd(ends[0]), Fd(ends[1])};
}

TEST(Leash, EndsAProcessThatBlocksAllSignals)
{
    Pair leash = connected();
    Pair ready = connected();
    const pid_t child = child_that([&] {
        leash.own.reset();
        return wear_leash(leash.of_child.get()) && write(ready.of_child.get(), "x", 1) == 1;
    });
    leash.of_child.reset();
    ready.of_child.reset();
    char byte = 0;
    EXPECT_EQ(read(ready.own.get(), &byte, 1), 1);
    EXPECT_EQ(kill(child, 0), 0);
    leash.own.reset();
    EXPECT_EQ(signal_that_ended(child), SIGKILL);
}

TEST(Leash, WhoseOtherEndIsClosedIsNotWorn)
{
    Pair leash = connected();
    leash.own.reset();
    const pid_t child = child_that([&] { return wear_leash(leash.of_child.get()); });
    EXPECT_EQ(signal_that_ended(child), -1);
}

// The number of one that has ended may be another process's by now. Here that is this process's
// own, since both ends of a pair are its own.
TEST(Leash, OfAProcessThatHasGoneEndsNobody)
{
    const pid_t child = child_that([] {
        Pair ends = connected();
        Loop loop;
        Leashes leashes;
        leashes.want();
        leashes.hold(Channel::make(loop, std::move(ends.own)));
        if (leashes.empty()) // the other end is there still
            return false;
        Pair gone = connected();
        gone.of_child.reset();
        leashes.hold(Channel::make(loop, std::move(gone.own)));
        loop.after(100, [&loop] { loop.stop(); });
        loop.run();
        _exit(leashes.holds(getpid()) ? 7 : 8);
    });
    EXPECT_EQ(signal_that_ended(child), -7);
}

TEST(Leash, IsNeededInSupervisedJobsOnly)
{
    const char *const none[] = {"CRYO_JOB=1:2:3:4", nullptr};
    const char *const other[] = {"CRYO_FENCED=0", nullptr};
    const char *const supervised[] = {"CRYO_FENCED=1", nullptr};
    EXPECT_FALSE(is_fenced(none));
    EXPECT_FALSE(is_fenced(other));
    EXPECT_TRUE(is_fenced(supervised));
}

} // namespace
} // namespace cryo::coord
