// SPDX-License-Identifier: Apache-2.0
// What a kind saves of an open file, it makes again: without a checkpoint and a restart, through
// the two contexts alone.
#include "own_contexts.hpp"

#include "resources/cuts.hpp"
#include "resources/locks.hpp"
#include "resources/owner.hpp"
#include "resources/socket/sockets.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
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

// What a process is to do.
std::vector<restore::Op> operations(restore::Program &program)
{
    const std::string plan = program.finish({});
    restore::Header header = {};
    memcpy(&header, plan.data(), sizeof(header));
    std::vector<restore::Op> all(header.op_count);
    if (!all.empty())
        memcpy(all.data(), plan.data() + header.ops, all.size() * sizeof(all[0]));
    return all;
}

Fd file_without_name()
{
    char path[] = "/tmp/cryo-locks-XXXXXX";
    Fd made(mkostemp(path, O_CLOEXEC));
    EXPECT_TRUE(made) << path;
    unlink(path);
    return made;
}

// Each descriptor of a file lists the same locks.
TEST(RoundTrip, ALockIsSavedOnce)
{
    Fd file = file_without_name();
    struct flock range = {};
    range.l_type = F_WRLCK;
    range.l_start = 10;
    range.l_len = 5;
    ASSERT_EQ(flock(file.get(), LOCK_SH), 0);
    ASSERT_EQ(fcntl(file.get(), F_SETLK, &range), 0);
    OwnSaving saving;
    saving.add(std::move(file));
    const Seen &seen = saving.seen().front();
    save_locks(saving, seen, seen);
    save_locks(saving, seen, seen);
    const auto &locks = saving.records().of<image::Lock>();
    ASSERT_EQ(locks.size(), 2U);
    const auto whole = std::ranges::find(locks, image::LockKind::flock, &image::Lock::kind);
    const auto part = std::ranges::find(locks, image::LockKind::posix, &image::Lock::kind);
    ASSERT_TRUE(whole != locks.end() && part != locks.end());
    EXPECT_EQ(whole->how, static_cast<uint32_t>(F_RDLCK));
    EXPECT_EQ(whole->open_file, 1U);
    EXPECT_EQ(part->how, static_cast<uint32_t>(F_WRLCK));
    EXPECT_EQ(part->open_file, 0U);
    EXPECT_EQ(part->pid, static_cast<uint32_t>(getpid()));
    EXPECT_EQ(part->start, 10U);
    EXPECT_EQ(part->length, 5U);
    EXPECT_TRUE(saving.refused().empty());
}

TEST(RoundTrip, ALockIsTakenByADescriptorThatMayHaveIt)
{
    image::FoundRecords records;
    image::File file;
    file.id = 1;
    records.add(file);
    for (const uint32_t access : {O_RDONLY, O_RDWR}) {
        image::OpenFile open_file;
        open_file.id = access == O_RDWR ? 2 : 1;
        open_file.file = 1;
        open_file.flags = access;
        records.add(open_file);
    }
    OwnOpening opening(records);
    ASSERT_TRUE(opening.keep(file_without_name(), 1));
    ASSERT_TRUE(opening.keep(file_without_name(), 2));
    image::Lock lock;
    lock.kind = image::LockKind::posix;
    lock.file = 1;
    lock.how = F_WRLCK;
    take_locks(opening, {lock});
    const std::vector<restore::Op> all = operations(opening.program());
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].arg[0], static_cast<uint64_t>(opening.fd(2)));
    EXPECT_EQ(all[0].arg[1], static_cast<uint64_t>(F_SETLK));
}

// One is open for writing, one for reading only, one in a message only.
TEST(RoundTrip, FilesAreCutByThoseThatMayWrite)
{
    image::FoundRecords records;
    for (const uint32_t id : {1, 2, 3}) {
        image::File file;
        file.id = id;
        file.kind = image::FileKind::regular;
        file.size = 100 * id;
        records.add(file);
        image::OpenFile open_file;
        open_file.id = open_file.file = id;
        open_file.flags = id == 2 ? O_RDONLY : O_RDWR;
        records.add(open_file);
    }
    OwnOpening opening(records);
    for (const uint32_t id : {1, 2, 3})
        ASSERT_TRUE(opening.keep(file_without_name(), id));
    opening.in_message_ = 3;
    const std::vector<image::Lock> none;
    const Cuts cuts(opening, none, {3});
    EXPECT_EQ(cuts.spared(), std::set<int>{opening.fd(3)});
    cuts.plan();
    const std::vector<restore::Op> all = operations(opening.program());
    ASSERT_EQ(all.size(), 3U); // with the close of the last one
    EXPECT_EQ(all[0].arg[0], static_cast<uint64_t>(opening.fd(1)));
    EXPECT_EQ(all[0].arg[1], 100U);
    EXPECT_EQ(all[1].arg[0], static_cast<uint64_t>(opening.fd(3)));
    EXPECT_EQ(all[1].arg[1], 300U);
    EXPECT_EQ(all[2].arg[0], static_cast<uint64_t>(opening.fd(3)));
}

TEST(RoundTrip, ALeaseIsInTheWayOfARehearsal)
{
    image::FoundRecords records;
    image::File file;
    file.id = 1;
    file.path = "/tmp/leased";
    records.add(file);
    const OwnOpening opening(records);
    image::Lock lock;
    lock.file = 1;
    lock.kind = image::LockKind::flock;
    EXPECT_TRUE(refuse_leases(opening, {lock}));
    lock.kind = image::LockKind::lease;
    const Result<void> refused = refuse_leases(opening, {lock});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().text().find("a lease on /tmp/leased"), std::string::npos);
}

// An owner is the process itself, and under another id it is again.
TEST(RoundTrip, AnOwnerIsTheSameProcess)
{
    OwnSaving saving;
    Fd owned(eventfd(0, EFD_CLOEXEC));
    ASSERT_EQ(fcntl(owned.get(), F_SETOWN, getpid()), 0);
    ASSERT_EQ(fcntl(owned.get(), F_SETSIG, SIGUSR1), 0);
    saving.add(std::move(owned));
    image::FoundRecords records;
    image::OpenFile record = saving.records().of<image::OpenFile>().front();
    ASSERT_TRUE(save_owner(saving, saving.seen().front(), record));
    EXPECT_EQ(record.owner, getpid());
    EXPECT_EQ(record.owner_signal, static_cast<uint32_t>(SIGUSR1));
    EXPECT_TRUE(saving.refused().empty());
    records.add(record);

    const std::set<uint32_t> none;
    OwnOpening opening(records);
    ASSERT_TRUE(opening.keep(Fd(eventfd(0, EFD_CLOEXEC)), record.id));
    const auto own = static_cast<uint32_t>(getpid());
    EXPECT_TRUE(set_owners(opening, {own, false, none}).empty());
    const std::vector<restore::Op> all = operations(opening.program());
    ASSERT_EQ(all.size(), 3U); // with getpid
    EXPECT_EQ(all[0].arg[1], static_cast<uint64_t>(F_SETSIG));
    EXPECT_EQ(all[2].arg[1], static_cast<uint64_t>(F_SETOWN));
    // Another process has an id that nobody knows.
    const std::vector<std::string> notices = set_owners(opening, {own + 1, false, none});
    ASSERT_EQ(notices.size(), 1U);
    EXPECT_NE(notices[0].find("sends its signals to nobody"), std::string::npos);
    EXPECT_TRUE(set_owners(opening, {own + 1, false, {record.id}}).empty());
}

TEST(RoundTrip, AnOwnerThatIsNotSavedIsRefusedWhereItGetsSignals)
{
    for (const bool gets_signals : {false, true}) {
        int ends[2];
        ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
        const Fd writer(ends[1]);
        Fd reader(ends[0]);
        ASSERT_EQ(fcntl(reader.get(), F_SETOWN, 1), 0);
        ASSERT_EQ(fcntl(reader.get(), F_SETFL, gets_signals ? O_ASYNC : 0), 0);
        OwnSaving saving;
        saving.add(std::move(reader));
        image::OpenFile record;
        ASSERT_TRUE(save_owner(saving, saving.seen().front(), record));
        EXPECT_EQ(record.owner, 1);
        EXPECT_EQ(saving.refused().size(), gets_signals ? 1U : 0U);
    }
}

TEST(RoundTrip, ADirectoryThatItsNameDoesNotLeadToIsRefused)
{
    char path[] = "/tmp/cryo-directory-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    const std::string renamed = std::string(path) + ".renamed";
    OwnSaving saving;
    saving.add(Fd(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
    EXPECT_TRUE(saving.save_all());
    EXPECT_TRUE(saving.refused().empty());
    ASSERT_EQ(rename(path, renamed.c_str()), 0);
    EXPECT_TRUE(saving.save_all());
    rmdir(renamed.c_str());
    ASSERT_EQ(saving.refused().size(), 1U);
    EXPECT_NE(saving.refused()[0].find("its name does not lead to"), std::string::npos);
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

// No process has it, so it is set by cr_restart's descriptor, which is spared until then.
TEST(RoundTrip, ATimerInAMessageIsSetAndClosed)
{
    OwnSaving saving;
    const itimerspec in_an_hour = {{}, {3600, 0}};
    for (int i = 0; i < 2; i++) {
        Fd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
        ASSERT_EQ(timerfd_settime(timer.get(), 0, &in_an_hour, nullptr), 0);
        saving.add(std::move(timer));
    }
    ASSERT_TRUE(saving.save_all());
    OwnOpening opening(saving);
    ASSERT_TRUE(open_all(opening));
    opening.in_message_ = 2;
    EXPECT_EQ(spared_by_all(opening), std::set<int>{opening.fd(2)});
    finish_all(opening);
    const std::vector<restore::Op> all = operations(opening.program());
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[0].arg[0], static_cast<uint64_t>(opening.fd(1)));
    EXPECT_EQ(all[1].arg[0], static_cast<uint64_t>(opening.fd(2)));
    EXPECT_EQ(all[2].arg[0], static_cast<uint64_t>(opening.fd(2))); // its close
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

TEST(RoundTrip, AWatchOfARemovedFileIsKeptByADescriptorOfIt)
{
    char path[] = "/tmp/cryo-watched-XXXXXX";
    Fd file(mkostemp(path, O_CLOEXEC));
    Fd watcher(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    ASSERT_TRUE(file);
    ASSERT_EQ(inotify_add_watch(watcher.get(), path, IN_MODIFY), 1);
    ASSERT_EQ(unlink(path), 0);
    char events[4096];
    while (read(watcher.get(), events, sizeof(events)) > 0)
        ;
    OwnSaving saving;
    saving.add(std::move(watcher));
    saving.add(std::move(file));
    ASSERT_TRUE(saving.save_all());
    EXPECT_TRUE(saving.refused().empty());
    ASSERT_EQ(saving.records().of<image::InotifyWatch>().size(), 1U);
    EXPECT_EQ(saving.records().of<image::InotifyWatch>()[0].path, "open file 2");
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

// An open file that no process has is found in a message, and saved with it.
TEST(RoundTrip, APairHasWhatWaitsInIt)
{
    int ends[2] = {-1, -1};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    Fd one(ends[0]), two(ends[1]);
    {
        const Fd counter(eventfd(3, EFD_CLOEXEC));
        const int number = counter.get();
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof(number))] = {};
        char text[] = "five!";
        iovec part = {text, 5};
        msghdr message = {};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
        cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(number));
        memcpy(CMSG_DATA(head), &number, sizeof(number));
        ASSERT_EQ(sendmsg(one.get(), &message, 0), 5);
    }
    OwnSaving saving;
    saving.add(std::move(one));
    saving.add(std::move(two));
    Sockets sockets(saving, {});
    const Result<void> looked = sockets.look();
    ASSERT_TRUE(looked) << (looked ? "" : looked.error().text());
    ASSERT_EQ(saving.seen().size(), 3U);
    EXPECT_EQ(saving.seen()[2].kind, image::FileKind::eventfd);
    const Result<void> saved = sockets.save();
    ASSERT_TRUE(saved) << (saved ? "" : saved.error().text());
    EXPECT_TRUE(saving.refused().empty());
    const auto &records = saving.records().of<image::Socket>();
    ASSERT_EQ(records.size(), 2U);
    for (const image::Socket &record : records) {
        EXPECT_EQ(record.state, image::SocketState::pair);
        EXPECT_EQ(record.peer_open_file, 3 - record.open_file);
        EXPECT_EQ(record.size, record.open_file == 2 ? 5U : 0U);
    }
    const auto &passed = saving.records().of<image::Passed>();
    ASSERT_EQ(passed.size(), 1U);
    EXPECT_EQ(passed[0].socket, 2U);
    ASSERT_EQ(passed[0].open_files.size(), 1U);
    EXPECT_EQ(passed[0].open_files[0], 3U);
}

} // namespace

} // namespace cryo::resources
