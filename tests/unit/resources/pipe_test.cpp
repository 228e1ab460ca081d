// SPDX-License-Identifier: Apache-2.0
// Pipes and FIFOs come back with what was in them; one to outside becomes cr_restart's own output,
// and a second one is closed at its other end.
#include "own_contexts.hpp"

#include "../scratch.hpp"

#include <cstdlib>
#include <poll.h>
#include <sys/stat.h>

namespace cryo::resources {

namespace {

struct OwnPipe {
    Fd reader, writer;

    explicit OwnPipe(int flags = 0)
    {
        int ends[2];
        EXPECT_EQ(pipe2(ends, O_CLOEXEC | flags), 0);
        reader.reset(ends[0]);
        writer.reset(ends[1]);
    }
};

std::string read_some(int fd)
{
    char bytes[64];
    const ssize_t n = read(fd, bytes, sizeof(bytes));
    return std::string(bytes, n < 0 ? 0 : static_cast<size_t>(n));
}

void save_all_of(OwnSaving &saving)
{
    const Result<void> saved = saving.save_all();
    ASSERT_TRUE(saved) << saved.error().text();
}

void open_all_of(OwnOpening &opening)
{
    const Result<void> opened = open_all(opening);
    ASSERT_TRUE(opened) << opened.error().text();
}

TEST(Pipes, WhatIsInOneIsThereAgain)
{
    OwnPipe pipe(O_NONBLOCK);
    ASSERT_EQ(write(pipe.writer.get(), "left over", 9), 9);
    const int capacity = fcntl(pipe.writer.get(), F_SETPIPE_SZ, 8192);
    ASSERT_GT(capacity, 0);
    OwnSaving saving;
    saving.add(std::move(pipe.reader));
    saving.add(std::move(pipe.writer));
    save_all_of(saving);
    ASSERT_EQ(saving.records().of<image::Pipe>().size(), 1U);
    EXPECT_EQ(saving.records().of<image::Pipe>()[0].outside, 0U);
    EXPECT_EQ(read_some(saving.seen()[0].shared.get()), "left over"); // it was only looked at
    OwnOpening opening(saving);
    open_all_of(opening);
    EXPECT_EQ(fcntl(opening.fd(1), F_GETPIPE_SZ), capacity);
    EXPECT_EQ(fcntl(opening.fd(1), F_GETFL), O_RDONLY | O_NONBLOCK);
    EXPECT_EQ(fcntl(opening.fd(2), F_GETFL), O_WRONLY | O_NONBLOCK);
    EXPECT_EQ(read_some(opening.fd(1)), "left over");
    ASSERT_EQ(write(opening.fd(2), "more", 4), 4);
    EXPECT_EQ(read_some(opening.fd(1)), "more");
}

TEST(Pipes, OneHasItsOwnerAndItsMode)
{
    OwnPipe pipe;
    ASSERT_EQ(fchmod(pipe.reader.get(), 0640), 0);
    const bool may = fchown(pipe.reader.get(), 12340, 12350) == 0;
    OwnSaving saving;
    saving.add(std::move(pipe.reader));
    saving.add(std::move(pipe.writer));
    save_all_of(saving);
    OwnOpening opening(saving);
    open_all_of(opening);
    struct stat now = {};
    ASSERT_EQ(fstat(opening.fd(2), &now), 0);
    EXPECT_EQ(now.st_mode & 07777, 0640U);
    EXPECT_EQ(now.st_uid, may ? 12340 : getuid());
    EXPECT_EQ(now.st_gid, may ? 12350 : getgid());
    EXPECT_TRUE(opening.notices().empty());
}

TEST(Pipes, PacketsStayApart)
{
    OwnPipe pipe(O_DIRECT | O_NONBLOCK);
    ASSERT_EQ(write(pipe.writer.get(), "one", 3), 3);
    ASSERT_EQ(write(pipe.writer.get(), "three", 5), 5);
    OwnSaving saving;
    saving.add(std::move(pipe.reader));
    saving.add(std::move(pipe.writer));
    save_all_of(saving);
    OwnOpening opening(saving);
    open_all_of(opening);
    EXPECT_EQ(read_some(opening.fd(1)), "one");
    EXPECT_EQ(read_some(opening.fd(1)), "three");
}

TEST(Pipes, AFifoThatWasRemovedIsMadeAgain)
{
    const Scratch directory;
    const std::string path = directory / "fifo";
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    ASSERT_EQ(chmod(path.c_str(), 0640), 0);
    OwnSaving saving;
    saving.add(Fd(open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC)));
    ASSERT_EQ(write(saving.seen()[0].shared.get(), "letter", 6), 6);
    save_all_of(saving);
    saving.close_all();
    ASSERT_EQ(unlink(path.c_str()), 0);
    OwnOpening opening(saving);
    open_all_of(opening);
    EXPECT_EQ(read_some(opening.fd(1)), "letter");
    struct stat by_name = {}, made = {};
    EXPECT_EQ(stat(path.c_str(), &by_name), 0);
    EXPECT_EQ(fstat(opening.fd(1), &made), 0);
    EXPECT_EQ(by_name.st_ino, made.st_ino);
    EXPECT_EQ(made.st_mode, S_IFIFO | 0640U);
}

// Two whose readers are outside; the second is the program's standard output.
struct TwoToOutside {
    OwnPipe first, second;
    OwnSaving saving;

    TwoToOutside()
    {
        saving.add(std::move(first.writer));
        saving.add(std::move(second.writer));
        saving.standard_.insert(saving.seen()[1].fd);
    }
};

TEST(Pipes, OneToOutsideIsCrRestartsOwnOutput)
{
    TwoToOutside two;
    save_all_of(two.saving);
    EXPECT_EQ(two.saving.notices().size(), 1U);
    OwnOpening opening(two.saving);
    open_all_of(opening);
    EXPECT_EQ(opening.standard(), std::vector<uint32_t>{2});
    pollfd other_end = {opening.fd(1), 0, 0};
    EXPECT_EQ(poll(&other_end, 1, 0), 1);
    EXPECT_NE(other_end.revents & POLLERR, 0); // closed
    EXPECT_EQ(opening.notices().size(), 2U);
}

TEST(Pipes, ASecondOneToOutsideIsRefusedIfTheUserWantsThat)
{
    TwoToOutside two;
    two.saving.pipe_choice_.refuse = true;
    save_all_of(two.saving);
    EXPECT_TRUE(two.saving.notices().empty());
    ASSERT_EQ(two.saving.refused().size(), 1U);
    EXPECT_TRUE(two.saving.refused()[0].starts_with("a second pipe to a process outside, pipe:["))
        << two.saving.refused()[0];
}

} // namespace

} // namespace cryo::resources
