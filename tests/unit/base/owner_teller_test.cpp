// SPDX-License-Identifier: Apache-2.0
//
// Whose a file is, told by a process outside of the asker's user namespace.
#include "base/owner_teller.hpp"

#include "base/passing.hpp"
#include "base/pipe.hpp"
#include "sys/overflow_uid.hpp"

#include <cerrno>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using cryo::Fd;
using cryo::Result;

namespace {

Fd root_directory()
{
    return Fd(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

TEST(OwnerTeller, TellsInAUserNamespace)
{
    const Fd file = root_directory();
    const Fd own(memfd_create("own", MFD_CLOEXEC));
    struct stat status = {};
    ASSERT_EQ(0, fstat(file.get(), &status));
    const uid_t here = geteuid();
    Result<Fd> teller = cryo::start_owner_teller();
    ASSERT_TRUE(teller) << teller.error().text();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        constexpr int no_namespace = 77, wrong = 1;
        struct stat now = {};
        if (unshare(CLONE_NEWUSER) != 0)
            _exit(no_namespace);
        // No user has a name here.
        const bool hidden = fstat(own.get(), &now) == 0 && now.st_uid == cryo::sys::overflow_uid();
        _exit(hidden && cryo::ask_owner(teller->get(), file.get()) == status.st_uid &&
                      cryo::ask_owner(teller->get(), own.get()) == here
                  ? 0
                  : wrong);
    }
    int end = 0;
    ASSERT_EQ(child, waitpid(child, &end, 0));
    if (WIFEXITED(end) && WEXITSTATUS(end) == 77)
        GTEST_SKIP() << "no user namespaces are to be had";
    EXPECT_EQ(0, end);
}

TEST(OwnerTeller, AnswersEveryThreadItsOwnQuestion)
{
    Result<Fd> teller = cryo::start_owner_teller();
    ASSERT_TRUE(teller) << teller.error().text();
    const Fd file = root_directory();
    struct stat status = {};
    ASSERT_EQ(0, fstat(file.get(), &status));
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++)
        threads.emplace_back([&] {
            for (int n = 0; n < 100; n++)
                EXPECT_EQ(status.st_uid, cryo::ask_owner(teller->get(), file.get()));
        });
    for (std::thread &thread : threads)
        thread.join();
}

TEST(OwnerTeller, EndsWithTheLastAsker)
{
    Result<Fd> teller = cryo::start_owner_teller();
    ASSERT_TRUE(teller) << teller.error().text();
    teller->reset();
    int end = -1;
    int ended = 0; // those of other tests among them
    for (; wait(&end) > 0; ended++)
        EXPECT_EQ(0, end);
    EXPECT_GT(ended, 0);
}

TEST(OwnerTeller, NothingIsKnownWithoutIt)
{
    int ends[2];
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
    const Fd ours(ends[0]);
    Fd its(ends[1]);
    const Fd file = root_directory();
    std::thread dies([&] {
        char byte = 0;
        EXPECT_EQ(1, recv(its.get(), &byte, 1, 0)); // and drops what came with it
        its.reset();
    });
    EXPECT_FALSE(cryo::ask_owner(ours.get(), file.get()));
    dies.join();
    EXPECT_FALSE(cryo::ask_owner(ours.get(), file.get()));
}

TEST(OwnerTeller, NothingIsKnownFromOneThatIsHeldUp)
{
    int ends[2];
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
    const Fd ours(ends[0]);
    const Fd its(ends[1]); // from which nobody reads
    const Fd file = root_directory();
    EXPECT_FALSE(cryo::ask_owner(ours.get(), file.get(), 10));
}

TEST(OwnerTeller, AnswersIntoPipesOnlyAndWaitsForNone)
{
    Result<Fd> teller = cryo::start_owner_teller();
    ASSERT_TRUE(teller) << teller.error().text();
    const Fd file = root_directory();
    struct stat status = {};
    ASSERT_EQ(0, fstat(file.get(), &status));
    const Fd other(memfd_create("other", MFD_CLOEXEC));
    ASSERT_TRUE(other);
    Result<cryo::PipeEnds> full = cryo::make_pipe();
    ASSERT_TRUE(full);
    const std::vector<char> much(static_cast<size_t>(fcntl(full->write.get(), F_GETPIPE_SZ)));
    ASSERT_EQ(static_cast<ssize_t>(much.size()),
              write(full->write.get(), much.data(), much.size()));
    const char question = 0;
    for (const int to : {other.get(), full->write.get()}) {
        const int parts[] = {file.get(), to};
        ASSERT_EQ(1, cryo::send_with(teller->get(), cryo::bytes_of(question), parts));
    }
    // The teller takes one question after the other.
    EXPECT_EQ(status.st_uid, cryo::ask_owner(teller->get(), file.get()));
    struct stat now = {};
    ASSERT_EQ(0, fstat(other.get(), &now));
    EXPECT_EQ(0, now.st_size) << "an answer went into a file";
}

} // namespace
