// SPDX-License-Identifier: Apache-2.0
// A pseudo-terminal comes back with its modes and its size; other terminals are refused, but for
// that on which the program was started.
#include "own_contexts.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <thread>
#include <unistd.h>

namespace cryo::resources {

namespace {

class Terminals : public testing::Test
{
  protected:
    void SetUp() override
    {
        master_.reset(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
        if (!master_)
            GTEST_SKIP() << "no pseudo-terminals here";
        ASSERT_EQ(unlockpt(master_.get()), 0);
    }
    Fd open_slave() const
    {
        return Fd(open(ptsname(master_.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    }

    Fd master_;
    OwnSaving saving_;
};

TEST_F(Terminals, APairHasItsModesAndItsSize)
{
    Fd slave = open_slave();
    ASSERT_TRUE(slave);
    termios modes = {};
    ASSERT_EQ(tcgetattr(slave.get(), &modes), 0);
    modes.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
    modes.c_cc[VINTR] = 7;
    ASSERT_EQ(tcsetattr(slave.get(), TCSANOW, &modes), 0);
    const winsize size = {33, 99, 0, 0};
    ASSERT_EQ(ioctl(slave.get(), TIOCSWINSZ, &size), 0);
    saving_.terminal_.to_slave = "typed";
    saving_.add(std::move(master_));
    saving_.add(std::move(slave));
    const Result<void> saved = saving_.save_all();
    ASSERT_TRUE(saved) << saved.error().text();
    EXPECT_TRUE(saving_.refused().empty());
    OwnOpening opening(saving_);
    const Result<void> opened = open_all(opening);
    ASSERT_TRUE(opened) << opened.error().text();
    EXPECT_EQ(opening.notices().size(), 1U); // the number is taken: by the one that was saved
    termios modes_now = {};
    ASSERT_EQ(tcgetattr(opening.fd(2), &modes_now), 0);
    EXPECT_EQ(modes_now.c_lflag, modes.c_lflag);
    EXPECT_EQ(modes_now.c_cc[VINTR], 7);
    winsize size_now = {};
    ASSERT_EQ(ioctl(opening.fd(1), TIOCGWINSZ, &size_now), 0);
    EXPECT_EQ(size_now.ws_row, 33);
    EXPECT_EQ(size_now.ws_col, 99);
    char typed[16];
    ASSERT_EQ(fcntl(opening.fd(2), F_SETFL, O_NONBLOCK), 0);
    EXPECT_EQ(read(opening.fd(2), typed, sizeof(typed)), 5);
    ASSERT_EQ(write(opening.fd(2), "answer", 6), 6);
    ASSERT_EQ(fcntl(opening.fd(1), F_SETFL, O_NONBLOCK), 0);
    pollfd answer = {opening.fd(1), POLLIN, 0};
    ASSERT_EQ(poll(&answer, 1, 5000), 1);
    EXPECT_EQ(read(opening.fd(1), typed, sizeof(typed)), 6);
}

// The user has given another file for it.
TEST_F(Terminals, AnEndThatIsRedirectedStaysSo)
{
    Fd slave = open_slave();
    ASSERT_TRUE(slave);
    saving_.add(std::move(master_));
    saving_.add(std::move(slave));
    ASSERT_TRUE(saving_.save_all());
    OwnOpening opening(saving_);
    ASSERT_TRUE(opening.keep(Fd(open("/dev/null", O_WRONLY | O_CLOEXEC)), 2));
    const Result<void> opened = open_all(opening);
    ASSERT_TRUE(opened) << opened.error().text();
    EXPECT_TRUE(isatty(opening.fd(1)));
    EXPECT_FALSE(isatty(opening.fd(2)));
}

bool is_exclusive(const Fd &terminal)
{
    int exclusive = 0;
    EXPECT_EQ(ioctl(terminal.get(), TIOCGEXCL, &exclusive), 0);
    return exclusive != 0;
}

TEST_F(Terminals, OneIsNotExclusiveOnlyWhileItIsRead)
{
    const Fd slave = open_slave();
    ASSERT_TRUE(slave);
    ASSERT_EQ(ioctl(slave.get(), TIOCEXCL), 0);
    saving_.add(std::move(master_));
    saving_.add(Fd(fcntl(slave.get(), F_DUPFD_CLOEXEC, 0)));
    bool is_meanwhile = true;
    saving_.before_terminal_ = [&] { is_meanwhile = is_exclusive(slave); };
    ASSERT_TRUE(saving_.save_all());
    EXPECT_FALSE(is_meanwhile);
    EXPECT_TRUE(is_exclusive(slave));
}

TEST_F(Terminals, OneIsExclusiveAgainIfTheCheckpointIsKilled)
{
    const Fd slave = open_slave();
    ASSERT_TRUE(slave);
    ASSERT_EQ(ioctl(slave.get(), TIOCEXCL), 0);
    saving_.add(std::move(master_));
    saving_.add(Fd(fcntl(slave.get(), F_DUPFD_CLOEXEC, 0)));
    saving_.before_terminal_ = [] { kill(getpid(), SIGKILL); };
    const pid_t killed = fork();
    ASSERT_GE(killed, 0);
    if (killed == 0) {
        static_cast<void>(saving_.save_all());
        _exit(1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(killed, &status, 0), killed);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + std::chrono::seconds(30);
    while (!is_exclusive(slave) && Clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(is_exclusive(slave));
}

TEST_F(Terminals, AMasterAloneIsRefused)
{
    saving_.add(std::move(master_));
    ASSERT_TRUE(saving_.save_all());
    ASSERT_EQ(saving_.refused().size(), 1U);
    EXPECT_TRUE(saving_.refused()[0].starts_with("a pseudo-terminal whose other end, /dev/pts/"))
        << saving_.refused()[0];
}

TEST_F(Terminals, AnothersTerminalIsRefused)
{
    saving_.add(open_slave());
    ASSERT_TRUE(saving_.save_all());
    ASSERT_EQ(saving_.refused().size(), 1U);
    EXPECT_TRUE(saving_.refused()[0].starts_with("a terminal other than its own, /dev/pts/"))
        << saving_.refused()[0];
}

TEST_F(Terminals, TheOneOnWhichTheProgramWasStartedIsNotRefused)
{
    saving_.add(open_slave());
    saving_.add(open_slave());
    saving_.standard_.insert(saving_.seen()[1].fd);
    ASSERT_TRUE(saving_.save_all());
    EXPECT_TRUE(saving_.refused().empty());
}

} // namespace

} // namespace cryo::resources
