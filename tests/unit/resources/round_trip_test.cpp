// SPDX-License-Identifier: Apache-2.0
// What a kind saves of an open file, it makes again: without a checkpoint and a restart, through
// the two contexts alone.
#include "own_contexts.hpp"

#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

namespace cryo::resources {

namespace {

// The fdinfo of the first open file, made again.
std::string info_after(OwnSaving &saving)
{
    const Result<void> saved = saving.save_all();
    EXPECT_TRUE(saved) << (saved ? "" : saved.error().text());
    OwnOpening opening(saving);
    const Result<void> opened = open_all(opening);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().text());
    if (!opened)
        return {};
    const Seen again = see(Fd(fcntl(opening.fd(1), F_DUPFD_CLOEXEC, 3)));
    EXPECT_EQ(again.kind, saving.seen().front().kind);
    EXPECT_EQ(again.flags & O_NONBLOCK, saving.seen().front().flags & O_NONBLOCK);
    const Kind &how = kind(again.kind);
    if (how.compare != nullptr) {
        const Result<void> same =
            how.compare({opening.records(), opening.of<image::OpenFile>().at(1), "it", again.info});
        EXPECT_TRUE(same) << (same ? "" : same.error().text());
    }
    return again.info;
}

TEST(RoundTrip, AnEventfdHasItsCount)
{
    OwnSaving saving;
    saving.add(Fd(eventfd(3, EFD_CLOEXEC | EFD_NONBLOCK)));
    EXPECT_EQ(capture::field(info_after(saving), "eventfd-count"), "3");
    // Looking at a semaphore takes from it, and gives back.
    uint64_t count = 0;
    EXPECT_EQ(read(saving.seen().front().shared.get(), &count, sizeof(count)), 8);
    EXPECT_EQ(count, 3U);
}

TEST(RoundTrip, ASemaphoreStaysOne)
{
    for (const unsigned count : {0U, 1U, 2U, 5U}) {
        OwnSaving saving;
        saving.add(Fd(eventfd(count, EFD_CLOEXEC | EFD_SEMAPHORE)));
        info_after(saving);
        ASSERT_EQ(saving.records().of<image::Eventfd>().size(), 1U);
        EXPECT_TRUE(saving.records().of<image::Eventfd>()[0].semaphore) << count;
        EXPECT_EQ(saving.records().of<image::Eventfd>()[0].count, count);
    }
}

TEST(RoundTrip, ASignalfdHasItsSignals)
{
    sigset_t two;
    sigemptyset(&two);
    sigaddset(&two, SIGUSR1);
    sigaddset(&two, SIGRTMAX);
    OwnSaving saving;
    saving.add(Fd(signalfd(-1, &two, SFD_CLOEXEC | SFD_NONBLOCK)));
    EXPECT_EQ(capture::field(info_after(saving), "sigmask"), "8000000000000200");
}

// Whether it is set again is the process's own work, and in the plan.
TEST(RoundTrip, ATimerKnowsWhatIsLeft)
{
    OwnSaving saving;
    Fd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
    const itimerspec in_an_hour = {{7, 0}, {3600, 0}};
    ASSERT_EQ(timerfd_settime(timer.get(), 0, &in_an_hour, nullptr), 0);
    saving.add(std::move(timer));
    saving.add(Fd(timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC)));
    info_after(saving);
    const auto &timers = saving.records().of<image::Timer>();
    ASSERT_EQ(timers.size(), 2U);
    EXPECT_EQ(timers[0].interval, 7'000'000'000);
    EXPECT_GT(timers[0].remaining, 3'000'000'000'000);
    EXPECT_LE(timers[0].remaining, 3'600'000'000'000);
    EXPECT_EQ(timers[1].remaining, 0);
    EXPECT_EQ(timers[1].clock, static_cast<uint32_t>(CLOCK_REALTIME));
}

TEST(RoundTrip, AWatchHasItsNumber)
{
    OwnSaving saving;
    Fd watcher(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    inotify_add_watch(watcher.get(), "/tmp", IN_CREATE);
    ASSERT_EQ(inotify_rm_watch(watcher.get(), 1), 0);
    char event[4096];
    ASSERT_GT(read(watcher.get(), event, sizeof(event)), 0); // the watch has ended
    ASSERT_EQ(inotify_add_watch(watcher.get(), "/", IN_CREATE | IN_DELETE), 2);
    struct stat root;
    ASSERT_EQ(stat("/", &root), 0);
    saving.watched_.push_back({root.st_ino, root.st_dev, "/"});
    saving.add(std::move(watcher));
    const std::string info = info_after(saving);
    EXPECT_TRUE(saving.refused().empty());
    EXPECT_NE(info.find("inotify wd:2 "), std::string::npos) << info;
}

TEST(RoundTrip, AWatchOfAnUnknownPathIsRefused)
{
    OwnSaving saving;
    Fd watcher(inotify_init1(IN_CLOEXEC));
    ASSERT_EQ(inotify_add_watch(watcher.get(), "/", IN_CREATE), 1);
    saving.add(std::move(watcher));
    ASSERT_TRUE(saving.save_all());
    ASSERT_EQ(saving.refused().size(), 1U);
    EXPECT_NE(saving.refused()[0].find("whose path is not known"), std::string::npos);
}

} // namespace

} // namespace cryo::resources
