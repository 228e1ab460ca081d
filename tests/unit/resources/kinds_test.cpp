// SPDX-License-Identifier: Apache-2.0
// Each kind is recognised by what the kernel shows of it, and no other takes it.
#include "own_files.hpp"

#include <cstdlib>
#include <iterator>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timerfd.h>

namespace cryo::resources {

using image::FileKind;

namespace {

FileKind kind_of_fd(int fd)
{
    return see(Fd(fd)).kind;
}

TEST(Kinds, AnonymousOnesAreRecognised)
{
    sigset_t none;
    sigemptyset(&none);
    EXPECT_EQ(kind_of_fd(eventfd(0, EFD_CLOEXEC)), FileKind::eventfd);
    EXPECT_EQ(kind_of_fd(signalfd(-1, &none, SFD_CLOEXEC)), FileKind::signalfd);
    EXPECT_EQ(kind_of_fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)), FileKind::timerfd);
    EXPECT_EQ(kind_of_fd(epoll_create1(EPOLL_CLOEXEC)), FileKind::epoll);
    EXPECT_EQ(kind_of_fd(inotify_init1(IN_CLOEXEC)), FileKind::inotify);
    EXPECT_EQ(kind_of_fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0))), FileKind::pidfd);
    EXPECT_EQ(kind_of_fd(memfd_create("kinds", MFD_CLOEXEC)), FileKind::memfd);
    EXPECT_EQ(kind_of_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), FileKind::socket);
}

TEST(Kinds, FilesAreRecognised)
{
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    EXPECT_EQ(kind_of_fd(ends[0]), FileKind::pipe);
    EXPECT_EQ(kind_of_fd(ends[1]), FileKind::pipe);
    EXPECT_EQ(kind_of_fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), FileKind::regular);
    EXPECT_EQ(kind_of_fd(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), FileKind::directory);
    EXPECT_EQ(kind_of_fd(open("/dev/null", O_RDWR | O_CLOEXEC)), FileKind::char_device);
    EXPECT_EQ(kind_of_fd(open("/proc/self", O_PATH | O_NOFOLLOW | O_CLOEXEC)), FileKind::symlink);
    const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0)
        GTEST_SKIP() << "no pseudo-terminals here";
    EXPECT_EQ(kind_of_fd(master), FileKind::pty_master);
}

// A file may be called like a kernel object.
TEST(Kinds, AFileIsNotTakenForWhatItIsNamed)
{
    char directory[] = "/tmp/cryo-kinds-XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    const std::string path = std::string(directory) + "/anon_inode:[eventfd]";
    EXPECT_EQ(kind_of_fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)),
              FileKind::regular);
    unlink(path.c_str());
    rmdir(directory);
}

std::string_view why_refused(mode_t type, dev_t number, const char *link)
{
    Seen seen;
    seen.link = link;
    seen.status.st_mode = type;
    seen.status.st_rdev = number;
    const Kind &how = kind(kind_of(seen));
    return how.refused != nullptr ? how.refused(seen) : "";
}

TEST(Kinds, DevicesWithAStateAreRefused)
{
    EXPECT_EQ(why_refused(S_IFCHR, makedev(1, 3), "/dev/null"), "");
    EXPECT_EQ(why_refused(S_IFCHR, makedev(1, 1), "/dev/mem"), "the device");
    EXPECT_EQ(why_refused(S_IFCHR, makedev(1, 3), "/dev/own (deleted)"), "");
    EXPECT_EQ(why_refused(S_IFCHR, makedev(1, 1), "/dev/own (deleted)"), "the device");
    EXPECT_EQ(why_refused(S_IFBLK, makedev(8, 0), "/dev/sda"), "the device");
    EXPECT_EQ(why_refused(0, 0, "anon_inode:[perf_event]"), "a kernel object,");
    EXPECT_EQ(why_refused(0, 0, "anon_inode:[io_uring]"),
              "a ring, of which the kernel does not tell whether requests are under way,");
    EXPECT_EQ(why_refused(0, 0, "anon_inode:[fanotify]"),
              "a group whose events can only be taken, and may keep other processes waiting,");
    EXPECT_EQ(why_refused(S_IFREG, 0, "/etc/motd"), "");
}

TEST(Kinds, WhatANameLeadsToIsChecked)
{
    image::File file;
    file.path = "/tmp/it";
    file.size = 10;
    file.device_number = makedev(1, 3);
    struct stat now = {};
    now.st_mode = S_IFREG;
    now.st_size = 10;
    const ByName &regular = *kind(FileKind::regular).by_name;
    EXPECT_TRUE(regular.check(file, now));
    now.st_size = 9;
    const Result<void> shrunk = regular.check(file, now);
    ASSERT_FALSE(shrunk);
    EXPECT_EQ(shrunk.error().text(), "file /tmp/it has shrunk: 9 bytes, 10 when it was saved");
    file.flags = image::kFileContentsSaved;
    EXPECT_TRUE(regular.check(file, now));
    const ByName &device = *kind(FileKind::char_device).by_name;
    EXPECT_FALSE(device.check(file, now));
    now.st_mode = S_IFCHR;
    EXPECT_FALSE(regular.check(file, now));
    EXPECT_FALSE(device.check(file, now));
    now.st_rdev = makedev(1, 3);
    EXPECT_TRUE(device.check(file, now));
}

TEST(Kinds, AKindOfAnotherReleaseIsAnother)
{
    EXPECT_EQ(&kind(static_cast<FileKind>(image::kFileKinds)), &kind(FileKind::other));
    EXPECT_TRUE(kind(FileKind::other).save == nullptr);
}

TEST(Kinds, EachHasAName)
{
    for (uint32_t number = 0; number < image::kFileKinds; number++)
        EXPECT_STRNE(image::name_of(static_cast<FileKind>(number)), "unknown") << number;
}

// Images hold the numbers, so that a kind keeps its own wherever it stands in the list.
TEST(Kinds, NumbersStayAsTheyWere)
{
    constexpr const char *names[] = {"file",          "directory", "char device",   "block device",
                                     "fifo",          "pipe",      "socket",        "symlink",
                                     "memfd",         "eventfd",   "signalfd",      "timerfd",
                                     "epoll",         "inotify",   "terminal",      "pty master",
                                     "shared memory", "other",     "message queue", "pidfd"};
    for (uint32_t number = 0; number < std::size(names); number++)
        EXPECT_STREQ(image::name_of(static_cast<FileKind>(number)), names[number]);
}

// What only a process that has one can do to it is done to none that only a message holds. An epoll
// set gets its members by cr_restart's descriptor of it, and others are finished by a spared one.
TEST(Kinds, WhatProcessesFinishIsRefusedInMessages)
{
    EXPECT_EQ(kind(FileKind::terminal).only_of_processes, "a terminal,");
    EXPECT_TRUE(kind(FileKind::eventfd).only_of_processes.empty());
    EXPECT_TRUE(kind(FileKind::timerfd).only_of_processes.empty());
    for (uint32_t number = 0; number < image::kFileKinds; number++) {
        const auto which = static_cast<FileKind>(number);
        const Kind &one = kind(which);
        const bool has_own_work = (one.place != nullptr && which != FileKind::epoll) ||
                                  (one.finish != nullptr && one.spared == nullptr);
        EXPECT_TRUE(!has_own_work || !one.only_of_processes.empty()) << number;
    }
}

} // namespace

} // namespace cryo::resources
