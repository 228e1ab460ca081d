// SPDX-License-Identifier: Apache-2.0
#include "base/fd.hpp"
#include "base/write_all.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <thread>
#include <vector>

namespace {

using namespace cryo;

// One signal whose handler does nothing but end the system call that it interrupts.
class Interrupting
{
  public:
    Interrupting()
    {
        struct sigaction action = {};
        action.sa_handler = [](int) {};
        sigaction(SIGUSR1, &action, &before_);
    }
    ~Interrupting() { sigaction(SIGUSR1, &before_, nullptr); }
    Interrupting(const Interrupting &) = delete;
    Interrupting &operator=(const Interrupting &) = delete;

  private:
    struct sigaction before_ = {};
};

bool is_full(int writing)
{
    pollfd asked = {writing, POLLOUT, 0};
    return poll(&asked, 1, 0) == 0;
}

// Each time that the writer waits for room, a signal comes before the room.
std::vector<uint8_t> read_and_interrupt(int fd, int writing, pthread_t writer,
                                        const std::atomic<bool> &ended)
{
    std::vector<uint8_t> got;
    std::array<uint8_t, 3000> piece{};
    for (;;) {
        while (!is_full(writing) && !ended)
            std::this_thread::yield();
        pthread_kill(writer, SIGUSR1);
        const ssize_t n = read(fd, piece.data(), piece.size());
        if (n <= 0)
            return got;
        got.insert(got.end(), piece.begin(), piece.begin() + n);
    }
}

TEST(WriteAll, PartsAndSignalsLoseNothing)
{
    const Interrupting interrupting;
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const Fd first(ends[0]);
    Fd second(ends[1]);
    ASSERT_GT(fcntl(ends[1], F_SETPIPE_SZ, 4096), 0);
    std::vector<uint8_t> bytes(size_t(256) << 10);
    for (size_t i = 0; i < bytes.size(); i++)
        bytes[i] = static_cast<uint8_t>(i % 251);
    std::vector<uint8_t> got;
    std::atomic<bool> ended = false;
    const pthread_t self = pthread_self();
    std::thread reader([&] { got = read_and_interrupt(ends[0], ends[1], self, ended); });
    const Result<void> done = write_all(ends[1], "a pipe", bytes);
    second.reset();
    ended = true;
    reader.join();
    EXPECT_TRUE(done) << done.error().text();
    EXPECT_EQ(bytes, got);
}

TEST(WriteAll, AnErrorNamesWhatWasWrittenTo)
{
    const Fd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
    ASSERT_TRUE(full);
    const Result<void> done = write_all(full.get(), "the image", "text");
    ASSERT_FALSE(done);
    EXPECT_EQ(ENOSPC, done.error().code());
    EXPECT_EQ("the image: No space left on device", done.error().text());
    EXPECT_TRUE(write_all(full.get(), "the image", ""));
    EXPECT_EQ(EBADF, write_all(-1, "none", "text").error().code());
}

} // namespace
