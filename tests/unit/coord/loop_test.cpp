// SPDX-License-Identifier: Apache-2.0
//
// The daemons' event loop: what is ready is told once and to whom it belongs, and a turn costs
// nothing for what is not.
#include "coord/loop.hpp"

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "coord/channel.hpp"
#include "coord/strangers.hpp"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <memory>
#include <poll.h>
#include <stdexcept>
#include <string_view>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace cryo::coord {
namespace {

Fd event()
{
    return Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

// All that is due and ready.
void turn(Loop &loop)
{
    loop.after(0, [&loop] { loop.stop(); });
    loop.resume();
    loop.run();
}

TEST(Loop, TellsOfWhatIsReady)
{
    Loop loop;
    const Fd one = event();
    const Fd other = event();
    int ones = 0;
    int others = 0;
    loop.watch(one.get(), POLLIN, [&](short events) {
        EXPECT_EQ(events, POLLIN);
        eventfd_t value = 0;
        eventfd_read(one.get(), &value);
        ones++;
    });
    loop.watch(other.get(), POLLIN, [&](short) { others++; });
    eventfd_write(one.get(), 1);
    turn(loop);
    turn(loop);
    EXPECT_EQ(ones, 1);
    EXPECT_EQ(others, 0);
    loop.change(other.get(), POLLOUT);
    turn(loop);
    EXPECT_GE(others, 1);
    loop.forget(other.get());
    const int before = others;
    turn(loop);
    EXPECT_EQ(others, before);
}

TEST(Loop, ADescriptorIsNotTakenForTheOneThatHadItsNumber)
{
    Loop loop;
    Fd first = event();
    Fd second = event();
    eventfd_write(first.get(), 1);
    eventfd_write(second.get(), 1);
    int wrong = 0;
    // Either one is told first: it closes the other, whose number another descriptor gets.
    const auto replace = [&](Fd &old) {
        const int number = old.get();
        loop.forget(number);
        old.reset();
        Fd next = event();
        while (next.get() != number)
            next = Fd(fcntl(next.get(), F_DUPFD_CLOEXEC, number));
        old = std::move(next);
        loop.watch(number, POLLIN, [&](short) { wrong++; });
    };
    bool done = false;
    const auto one_of_two = [&](Fd &self, Fd &other) {
        return [&](short) {
            eventfd_t value = 0;
            eventfd_read(self.get(), &value);
            if (!std::exchange(done, true))
                replace(other);
        };
    };
    loop.watch(first.get(), POLLIN, one_of_two(first, second));
    loop.watch(second.get(), POLLIN, one_of_two(second, first));
    turn(loop);
    turn(loop);
    EXPECT_TRUE(done);
    EXPECT_EQ(wrong, 0);
}

TEST(Loop, ACallbackMayReplaceItselfAndThrow)
{
    Loop loop;
    const Fd one = event();
    eventfd_write(one.get(), 1);
    int second = 0;
    loop.watch(one.get(), POLLIN, [&, large = std::vector<int>(100, 7)](short) {
        loop.watch(one.get(), POLLIN, [&](short) {
            second++;
            loop.forget(one.get());
        });
        EXPECT_EQ(large.at(99), 7);
        throw std::runtime_error("of a test");
    });
    turn(loop);
    turn(loop);
    EXPECT_EQ(second, 1);
}

TEST(Loop, TimesComeInTheirOrder)
{
    Loop loop;
    std::vector<int> seen;
    loop.after(2, [&] { seen.push_back(2); });
    loop.after(1, [&] { seen.push_back(1); });
    const uint64_t never = loop.after(1, [&] { seen.push_back(9); });
    loop.after(0, [&] { loop.call_off(never); });
    loop.after(3, [&] { loop.stop(); });
    loop.run();
    EXPECT_EQ(seen, (std::vector<int>{1, 2}));
}

// Of this thread, for so many turns in which one descriptor is ready.
int64_t nanoseconds_of(Loop &loop, int turns)
{
    const Fd busy = event();
    eventfd_write(busy.get(), 1);
    int left = turns;
    loop.watch(busy.get(), POLLIN, [&](short) {
        if (--left == 0)
            loop.stop();
    });
    loop.resume();
    timespec begin = {};
    timespec end = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    loop.run();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    loop.forget(busy.get());
    return (end.tv_sec - begin.tv_sec) * 1'000'000'000 + end.tv_nsec - begin.tv_nsec;
}

// The least of some tries: in a virtual machine that stands still, a thread's processor goes on to
// count.
int64_t least_nanoseconds_of(Loop &loop, int turns)
{
    int64_t least = nanoseconds_of(loop, turns);
    for (int again = 0; again < 4; again++)
        least = std::min(least, nanoseconds_of(loop, turns));
    return least;
}

// With a list of all descriptors for each turn, the second takes a hundred times as long.
TEST(Loop, ATurnCostsNothingForWhatIsNotReady)
{
    constexpr int turns = 2000;
    constexpr int idle = 900; // below the limit that a login usually has
    Loop few;
    const int64_t alone = least_nanoseconds_of(few, turns);
    Loop loop;
    const Fd quiet = event();
    std::vector<Fd> copies;
    for (int i = 0; i < idle; i++) {
        copies.emplace_back(fcntl(quiet.get(), F_DUPFD_CLOEXEC, 0));
        ASSERT_TRUE(copies.back());
        loop.watch(copies.back().get(), POLLIN, [](short) { FAIL() << "nothing came"; });
        loop.after(1'000'000, [] { FAIL() << "that is too early"; });
    }
    EXPECT_LT(least_nanoseconds_of(loop, turns), 10 * alone);
    for (const Fd &copy : copies)
        loop.forget(copy.get());
}

// Each of these messages is one read, as each would be of a peer that sends as fast as it is read.
TEST(Loop, APeerThatSendsWithoutEndLeavesTurnsToOthers)
{
    constexpr size_t many = 60;
    int ends[2];
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
    const Fd far(ends[1]);
    Loop loop;
    const std::shared_ptr<Channel> channel = Channel::make(loop, Fd(ends[0]));
    size_t heard = 0;
    channel->on_frame = [&](FrameKind, std::string_view) { heard++; };
    const FrameHeader header;
    for (size_t i = 0; i < many; i++)
        ASSERT_EQ(ssize_t(sizeof(header)), send(far.get(), &header, sizeof(header), MSG_DONTWAIT));
    const Fd other = event();
    size_t before = many;
    loop.watch(other.get(), POLLIN, [&](short) {
        before = std::min(before, heard);
        loop.forget(other.get());
    });
    eventfd_write(other.get(), 1);
    while (heard < many)
        turn(loop);
    EXPECT_LT(before, many);
}

// A peer that has sent so many messages at once, and may have gone since.
class ManyMessages
{
  public:
    ManyMessages(size_t many, bool goes) : many_(many)
    {
        int ends[2];
        EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
        far_.reset(ends[1]);
        channel_ = Channel::make(loop_, Fd(ends[0]));
        channel_->on_frame = [this](FrameKind, std::string_view) {
            for (const uint64_t end = now_ns() + each_ns; now_ns() < end;) {
            }
            heard++;
        };
        channel_->on_end = [this] { ended = true; };
        const std::vector<FrameHeader> all(many);
        const auto bytes = static_cast<ssize_t>(many * sizeof(FrameHeader));
        EXPECT_EQ(bytes, write(far_.get(), all.data(), static_cast<size_t>(bytes)));
        if (goes)
            far_.reset();
    }
    int turns_until_all_are_heard()
    {
        int turns = 0;
        while (heard < many_) {
            turn();
            turns++;
        }
        turn(); // in which the end is seen
        return turns;
    }
    void turn() { coord::turn(loop_); }

    size_t heard = 0;
    bool ended = false;
    uint64_t each_ns = 0; // that the daemon is busy with each of them

  private:
    size_t many_;
    Fd far_;
    Loop loop_;
    std::shared_ptr<Channel> channel_;
};

// Nor does one that sends much that is small; and nothing is lost if it goes.
TEST(Loop, ManySmallMessagesAreMoreThanOneTurn)
{
    for (const bool goes : {false, true}) {
        ManyMessages messages(1000, goes);
        EXPECT_GE(messages.turns_until_all_are_heard(), 2);
        EXPECT_EQ(1000U, messages.heard);
        EXPECT_EQ(goes, messages.ended);
    }
}

// Nor do messages that take long to answer, whether their peer waits for the answers or goes.
TEST(Loop, MessagesThatTakeLongAreManyTurns)
{
    for (const bool goes : {false, true}) {
        ManyMessages messages(20, goes);
        messages.each_ns = 30'000'000;
        // Three in a turn at most: by its event, and by what was left.
        EXPECT_GE(messages.turns_until_all_are_heard(), 7);
        EXPECT_EQ(20U, messages.heard);
        EXPECT_EQ(goes, messages.ended);
    }
}

// A peer has 100 ms to prove itself, but the daemon does something else for twice as long.
TEST(Strangers, TimeInWhichTheDaemonIsBusyIsNotThePeers)
{
    int ends[2];
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    const Fd far(ends[1]);
    Loop loop;
    Strangers strangers(loop, {.most = 4, .milliseconds = 100});
    const std::shared_ptr<Channel> channel = Channel::make(loop, Fd(ends[0]));
    bool known = false;
    channel->on_frame = [&](FrameKind, std::string_view) {
        known = strangers.known(*channel);
        loop.stop();
    };
    strangers.meet(channel, "here");
    const Fd other = event();
    eventfd_write(other.get(), 1);
    loop.watch(other.get(), POLLIN, [&](short) {
        loop.forget(other.get());
        const FrameHeader header;
        ASSERT_EQ(ssize_t(sizeof(header)), write(far.get(), &header, sizeof(header)));
        for (const uint64_t end = now_ns() + 200'000'000; now_ns() < end;) {
        }
    });
    loop.after(60'000, [&] { loop.stop(); });
    loop.run();
    EXPECT_TRUE(known);
    EXPECT_TRUE(channel->open());
}

TEST(Strangers, APeerThatSaysNothingIsLeft)
{
    int ends[2];
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    const Fd far(ends[1]);
    Loop loop;
    Strangers strangers(loop, {.most = 4, .milliseconds = 50});
    const std::shared_ptr<Channel> channel = Channel::make(loop, Fd(ends[0]));
    strangers.meet(channel, "here");
    loop.watch(far.get(), POLLIN, [&](short) { loop.stop(); });
    loop.run();
    EXPECT_FALSE(channel->open());
    EXPECT_FALSE(strangers.known(*channel));
}

} // namespace
} // namespace cryo::coord
