// SPDX-License-Identifier: Apache-2.0
// What a kind saves of an open file, it makes again: without a checkpoint and a restart, through
// the two contexts alone.
#include "own_files.hpp"

#include <cerrno>
#include <deque>
#include <map>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

namespace cryo::resources {

using image::FileKind;

namespace {

// A checkpoint of a process with these open files, which is the test.
class OwnSaving : public Saving
{
  public:
    void add(Fd fd)
    {
        seen_.push_back(see(std::move(fd)));
        image::File file;
        file.id = seen_.back().open_file = static_cast<uint32_t>(seen_.size());
        file.kind = seen_.back().kind;
        image::OpenFile open_file;
        open_file.id = open_file.file = file.id;
        open_file.flags = seen_.back().flags;
        records_.add(file);
        records_.add(open_file);
    }
    Result<void> save_all()
    {
        for (const Seen &seen : seen_) {
            if (Result<void> done = kind(seen.kind).save(*this, seen); !done)
                return done;
        }
        return settle_all(*this);
    }
    const std::vector<std::string> &refused() const { return refused_; }

    image::FoundRecords &records() override { return records_; }
    std::string_view keep(std::string text) override { return texts_.emplace_back(text); }
    uint32_t copied(image::ObjectKind, std::string) override { return 0; }
    void refuse(const Seen &, std::string_view what, std::string_view,
                capture::Passing = capture::Passing::when_gone) override
    {
        refused_.emplace_back(what);
    }
    const std::vector<Seen> &seen() const override { return seen_; }
    const Seen *at(const Seen &, int fd) const override
    {
        for (const Seen &seen : seen_) {
            if (seen.fd == fd)
                return &seen;
        }
        return nullptr;
    }
    const image::File &file(const Seen &seen) const override
    {
        return records_.of<image::File>()[seen.open_file - 1];
    }
    pid_t process(const Seen &) const override { return getpid(); }
    std::set<pid_t> members(bool) const override { return {getpid()}; }
    Result<std::string> info_now(const Seen &seen) const override
    {
        return capture::Proc(getpid()).read("fdinfo/" + std::to_string(seen.fd));
    }
    Result<std::vector<WatchedPath>> watched(const Seen &) override { return watched_; }
    Result<std::string> messages(const Seen &) override { return Error(ENOSYS, "no agent"); }

    std::vector<WatchedPath> watched_;

  private:
    std::vector<Seen> seen_;
    image::FoundRecords records_;
    std::deque<std::string> texts_;
    std::vector<std::string> refused_;
};

// A restart of it that keeps what it opens.
class OwnOpening : public Opening
{
  public:
    explicit OwnOpening(const image::FoundRecords &found)
    {
        found.each([&](const auto &record) { records_.add(record); });
    }
    int fd(uint32_t open_file) const { return made_.at(open_file).get(); }

    const image::SavedRecords &records() const override { return records_; }
    const std::vector<image::Timer> &timers() const override { return of<image::Timer>(); }
    int64_t cut_realtime() const override { return 0; }
    bool is_opened(uint32_t open_file) const override { return made_.contains(open_file); }
    bool is_redirected(uint32_t) const override { return false; }
    Result<void> keep(Fd made, uint32_t open_file) override
    {
        made_[open_file] = std::move(made);
        return {};
    }
    Result<std::string> contents(uint32_t, uint64_t) override { return std::string(); }
    const Trust &trust() const override { return trust_; }
    restore::Program &program() override { return program_; }
    bool cares_for(uint32_t) const override { return true; }
    bool is_first() const override { return true; }
    restore::Operand opened(uint32_t open_file) const override
    {
        return restore::value(fd(open_file));
    }
    int descriptor(uint32_t open_file) const override { return fd(open_file); }

  private:
    image::SavedRecords records_;
    std::map<uint32_t, Fd> made_;
    Trust trust_;
    restore::Program program_;
};

// The fdinfo of the first open file, made again.
std::string info_after(OwnSaving &saving)
{
    const Result<void> saved = saving.save_all();
    EXPECT_TRUE(saved) << (saved ? "" : saved.error().text());
    OwnOpening opening(saving.records());
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
