// SPDX-License-Identifier: Apache-2.0
// Programs that try to hold whoever saves them, while they are stopped.
#include "capture/process/held_thread.hpp"
#include "capture/process/stopped.hpp"

#include <cerrno>
#include <csignal>
#include <functional>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

class Child
{
  public:
    explicit Child(const std::function<void()> &work) : pid_(fork())
    {
        if (pid_ == 0) {
            work();
            _exit(0);
        }
    }
    ~Child()
    {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, __WALL);
    }
    Child(const Child &) = delete;
    Child &operator=(const Child &) = delete;

    pid_t pid() const { return pid_; }

  private:
    pid_t pid_;
};

constexpr uint64_t limit_ns = 2'000'000'000; // in which the program must be held, too

void pause_for_ever()
{
    for (;;)
        pause();
}

} // namespace

// Each is a stop of the thread, and comes soon.
TEST(Stopped, SignalsWithoutEndEndTheWaiting)
{
    const Child program(pause_for_ever);
    ASSERT_EQ(0, kill(program.pid(), SIGSTOP));
    int status = 0;
    ASSERT_EQ(program.pid(), waitpid(program.pid(), &status, WUNTRACED));
    ASSERT_TRUE(WIFSTOPPED(status));
    Result<Stopped> stopped = Stopped::hold(program.pid(), SIGRTMAX, limit_ns);
    ASSERT_TRUE(stopped) << stopped.error().text();
    const Child sender([&] {
        while (kill(program.pid(), SIGSTOP) == 0) {
        }
    });
    const Result<void> led = stopped->lead(); // its signal never comes
    ASSERT_FALSE(led);
    EXPECT_EQ(EBUSY, led.error().code()) << led.error().text();
}

TEST(HeldThread, OneThatNothingStopsIsNotWaitedForForEver)
{
    int ends[2];
    ASSERT_EQ(0, pipe(ends));
    const Child program([&] {
        setpgid(0, 0);
        if (vfork() == 0) { // NOLINT: it is not to execute anything
            static_cast<void>(write(ends[1], "x", 1));
            for (;;)
                pause();
        }
    });
    char word = 0;
    ASSERT_EQ(1, read(ends[0], &word, 1));
    const Result<HeldThread> held = HeldThread::hold(program.pid(), "nothing is known of it");
    kill(-program.pid(), SIGKILL);
    ASSERT_FALSE(held);
    EXPECT_EQ(EBUSY, held.error().code()) << held.error().text();
    close(ends[0]);
    close(ends[1]);
}

} // namespace cryo::capture
