// SPDX-License-Identifier: Apache-2.0
//
// Files are looked at without being opened; what is opened then is what was looked at.
#include "base/open_found.hpp"

#include "../scratch.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <linux/openat2.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo {

namespace {

namespace fs = std::filesystem;

class OpenFound : public testing::Test
{
  protected:
    std::string path(const char *name) const { return top_ / name; }
    std::string write(const char *name, const char *contents) const
    {
        std::ofstream(path(name)) << contents;
        return path(name);
    }

    const Scratch scratch_;
    const fs::path top_ = fs::canonical(scratch_.path());
};

std::string read_all(const Result<Fd> &file)
{
    char bytes[64];
    const ssize_t n = file ? read(file->get(), bytes, sizeof(bytes)) : -1;
    return n < 0 ? "not read" : std::string(bytes, static_cast<size_t>(n));
}

bool has_openat2()
{
    open_how how = {};
    how.flags = O_PATH | O_CLOEXEC;
    return Fd(static_cast<int>(syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how)))).get() >= 0;
}

TEST_F(OpenFound, ARegularFileIsOpened)
{
    const std::string file = write("file", "contents");
    for (const Links links : {Links::followed, Links::not_at_end, Links::nowhere}) {
        const Result<Found> found = look_at(file, links);
        ASSERT_TRUE(found) << found.error().text();
        EXPECT_TRUE(S_ISREG(found->status.st_mode));
        EXPECT_EQ(found->status.st_size, 8);
        EXPECT_EQ(found->path, file);
        char byte;
        EXPECT_EQ(read(found->fd.get(), &byte, 1), -1); // nothing is open yet
        EXPECT_EQ(errno, EBADF);
        const Result<Fd> opened = open_found(*found, O_RDONLY);
        EXPECT_EQ(read_all(opened), "contents");
        ASSERT_TRUE(opened);
        EXPECT_EQ(fcntl(opened->get(), F_GETFD), FD_CLOEXEC);
        EXPECT_EQ(fcntl(opened->get(), F_GETFL) & O_NONBLOCK, 0);
    }
}

TEST_F(OpenFound, WhatIsNotThereIsNamed)
{
    const Result<Found> found = look_at(path("nothing"), Links::followed);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code(), ENOENT);
    EXPECT_EQ(found.error().text(), Error::from_errno(path("nothing"), ENOENT).text());
}

TEST_F(OpenFound, AFifoWithoutAPeerIsNotWaitedFor)
{
    const std::string fifo = path("fifo");
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    const Result<Found> found = look_at(fifo, Links::followed);
    ASSERT_TRUE(found);
    EXPECT_TRUE(S_ISFIFO(found->status.st_mode));
    // The look has made it no reader, so a writer has no peer.
    const Result<Fd> alone = open_found(*found, O_WRONLY);
    ASSERT_FALSE(alone);
    EXPECT_EQ(alone.error().code(), ENXIO);
    EXPECT_EQ(alone.error().text(), Error::from_errno(fifo, ENXIO).text());
    const Result<Fd> reader = open_found(*found, O_RDONLY);
    EXPECT_TRUE(reader);
    EXPECT_TRUE(open_found(*found, O_WRONLY));
}

TEST_F(OpenFound, ALinkIsFollowedOnlyWhereThatIsSaid)
{
    write("file", "contents");
    const std::string link = path("link");
    fs::create_symlink("file", link);
    const Result<Found> followed = look_at(link, Links::followed);
    ASSERT_TRUE(followed);
    EXPECT_EQ(read_all(open_found(*followed, O_RDONLY | O_NOFOLLOW)), "contents");
    const Result<Found> itself = look_at(link, Links::not_at_end);
    ASSERT_TRUE(itself);
    EXPECT_TRUE(S_ISLNK(itself->status.st_mode));
    const Result<Fd> opened = open_found(*itself, O_RDONLY);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code(), ELOOP);
    const Result<Found> nowhere = look_at(link, Links::nowhere);
    EXPECT_TRUE(!nowhere || S_ISLNK(nowhere->status.st_mode));
}

TEST_F(OpenFound, ALinkOnTheWayIsFollowedUnlessNoneIs)
{
    fs::create_directory(path("real"));
    write("real/file", "contents");
    fs::create_directory_symlink("real", path("link"));
    const std::string file = path("link/file");
    for (const Links links : {Links::followed, Links::not_at_end}) {
        const Result<Found> found = look_at(file, links);
        ASSERT_TRUE(found);
        EXPECT_EQ(read_all(open_found(*found, O_RDONLY)), "contents");
    }
    if (!has_openat2())
        GTEST_SKIP() << "openat2(2) is not to be had";
    const Result<Found> nowhere = look_at(file, Links::nowhere);
    ASSERT_FALSE(nowhere);
    EXPECT_EQ(nowhere.error().code(), ELOOP);
}

TEST_F(OpenFound, WhatWasLookedAtIsOpenedWhateverHasComeToItsName)
{
    const std::string file = write("file", "old");
    const Result<Found> found = look_at(file, Links::followed);
    ASSERT_TRUE(found);
    fs::rename(write("other", "new"), file);
    EXPECT_EQ(read_all(open_found(*found, O_RDONLY)), "old");
    fs::remove(file);
    fs::create_symlink(write("other", "new"), file);
    EXPECT_EQ(read_all(open_found(*found, O_RDONLY)), "old");
    fs::remove(file);
    ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
    EXPECT_EQ(read_all(open_found(*found, O_RDONLY)), "old");
}

TEST_F(OpenFound, ADeviceIsOpenedOnlyIfThatIsAskedFor)
{
    const Result<Found> found = look_at("/dev/null", Links::followed);
    ASSERT_TRUE(found);
    ASSERT_TRUE(S_ISCHR(found->status.st_mode));
    const Result<Fd> refused = open_found(*found, O_RDONLY);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), EINVAL);
    EXPECT_EQ(refused.error().text(), "/dev/null: is a device");
    EXPECT_TRUE(open_found(*found, O_PATH));
    const Result<Fd> no_directory = open_found(*found, O_RDONLY | O_DIRECTORY);
    ASSERT_FALSE(no_directory);
    EXPECT_EQ(no_directory.error().code(), ENOTDIR);
    EXPECT_EQ(read_all(open_found(*found, O_RDONLY, Devices::opened)), "");
}

TEST_F(OpenFound, WhatMayNotBeReadIsNamed)
{
    const std::string file = write("file", "contents");
    ASSERT_EQ(chmod(file.c_str(), 0), 0);
    const Result<Found> found = look_at(file, Links::followed);
    ASSERT_TRUE(found); // a look needs no right to read
    constexpr int is_root = 77;
    // Root may read everything, so a process of its own is another user where files are concerned.
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        if (geteuid() == 0) {
            setfsuid(65534);
            if (setfsuid(static_cast<uid_t>(-1)) == 0) // tells which it is
                _exit(is_root);
        }
        const Result<Fd> opened = open_found(*found, O_RDONLY);
        const Error expected = Error::from_errno(file, EACCES);
        _exit(!opened && opened.error().code() == EACCES && opened.error().text() == expected.text()
                  ? 0
                  : 1);
    }
    int end = 0;
    ASSERT_EQ(waitpid(child, &end, 0), child);
    if (WIFEXITED(end) && WEXITSTATUS(end) == is_root)
        GTEST_SKIP() << "root cannot be another user here";
    EXPECT_EQ(end, 0);
}

TEST_F(OpenFound, AnOpenFileIsOpenedOnceMore)
{
    const std::string file = write("file", "contents");
    const Fd first(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(lseek(first.get(), 3, SEEK_SET), 3);
    fs::remove(file);
    EXPECT_EQ(read_all(reopen(first.get(), O_RDONLY | O_NOFOLLOW, "a file")), "contents");
    const Result<Fd> none = reopen(-1, O_RDONLY, "a file");
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().text(), Error::from_errno("a file", ENOENT).text());
}

} // namespace

} // namespace cryo
