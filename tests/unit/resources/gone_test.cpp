// SPDX-License-Identifier: Apache-2.0
// Open files of what is gone: processes that have ended, and devices whose nodes were removed.
#include "own_contexts.hpp"

#include <cerrno>
#include <csignal>
#include <string>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

namespace cryo::resources {

namespace {

// What can be told of a process that has ended is the same for any other one.
TEST(Gone, AFileAboutAnEndedProcessTellsNothing)
{
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        pause();
        _exit(0);
    }
    const std::string directory = "/proc/" + std::to_string(child);
    Fd stat(open((directory + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
    Fd tasks(open((directory + "/task").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(see(Fd(fcntl(stat.get(), F_DUPFD_CLOEXEC, 3))).kind, image::FileKind::regular);
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    OwnSaving saving;
    saving.add(std::move(stat));
    saving.add(std::move(tasks));
    for (const Seen &seen : saving.seen()) {
        EXPECT_EQ(seen.kind, image::FileKind::other);
        EXPECT_EQ(kind(seen.kind).refused(seen), "");
    }
    OwnOpening opening(saving);
    const Result<void> opened = open_all(opening);
    ASSERT_TRUE(opened) << opened.error().text();
    char byte;
    EXPECT_EQ(read(opening.fd(1), &byte, 1), -1);
    EXPECT_EQ(errno, ESRCH);
    EXPECT_EQ(fcntl(opening.fd(2), F_GETFL) & O_DIRECTORY, O_DIRECTORY);
}

// An image names no other file than one in the directory of a process.
TEST(Gone, NothingElseOfProcIsOpened)
{
    for (const char *path : {"/proc/1/../kcore", "/proc/kcore", "/etc/shadow", "/proc/12/ns/net"}) {
        image::FoundRecords found;
        image::File file;
        file.id = 1;
        file.kind = image::FileKind::other;
        file.path = path;
        found.add(file);
        image::OpenFile open_file;
        open_file.id = open_file.file = 1;
        found.add(open_file);
        OwnOpening opening(found);
        const Result<void> opened = open_all(opening);
        ASSERT_FALSE(opened) << path;
        EXPECT_EQ(opened.error().code(), ENOTSUP);
    }
}

// Of the devices that have no state, an image names the one to be opened; no other is.
TEST(Gone, ADeviceWithoutANameIsMadeOrTheUsualOne)
{
    for (const unsigned number : {3U, 1U}) { // null, mem
        image::FoundRecords found;
        image::File file;
        file.id = 1;
        file.kind = image::FileKind::char_device;
        file.path = "/nowhere/device";
        file.flags = image::kFileUnlinked;
        file.mode = S_IFCHR | 0640;
        file.uid = getuid();
        file.gid = getgid();
        file.device_number = makedev(1, number);
        found.add(file);
        image::OpenFile open_file;
        open_file.id = open_file.file = 1;
        open_file.flags = O_RDWR;
        found.add(open_file);
        OwnOpening opening(found);
        const Result<void> opened = open_all(opening);
        EXPECT_EQ(bool(opened), number == 3);
        struct stat now = {};
        if (number == 3) {
            ASSERT_EQ(fstat(opening.fd(1), &now), 0);
            EXPECT_EQ(now.st_rdev, makedev(1, number));
            EXPECT_TRUE(now.st_nlink == 0 || opening.notices().size() == 1);
        }
    }
}

} // namespace

} // namespace cryo::resources
