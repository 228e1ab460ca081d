// SPDX-License-Identifier: Apache-2.0
//
// The process that holds an image's files in memory.
#include "recover/standby.hpp"

#include "base/fd.hpp"
#include "base/pipe.hpp"

#include "sample.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::recover {
namespace {

constexpr size_t pages = 5;
constexpr uint64_t plenty = uint64_t(1) << 30;

size_t page_size()
{
    return static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

bool is_resident(const std::string &path)
{
    const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const size_t size = pages * page_size();
    void *begin = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
    unsigned char there[pages] = {};
    EXPECT_EQ(mincore(begin, size, there), 0);
    munmap(begin, size);
    return std::ranges::all_of(there, [](unsigned char one) { return (one & 1) != 0; });
}

class StandbyTest : public testing::Test
{
  protected:
    StandbyTest() { sigprocmask(SIG_SETMASK, nullptr, &mask_); }

    std::string file(const std::string &name) const
    {
        const std::string path = dir_ / name;
        std::ofstream(path) << std::string(pages * page_size(), 'x');
        const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
        fsync(fd.get());
        return path;
    }
    pid_t hold(Standby &standby, const std::string &name, const Result<Reads> &reads) const
    {
        return standby.hold(
            name, [&] { return reads; }, mask_);
    }
    // What it says first.
    static bool await_word(Standby &standby)
    {
        pollfd ready = {standby.fd(), POLLIN, 0};
        EXPECT_EQ(poll(&ready, 1, 60'000), 1);
        return standby.read();
    }
    static int await_end(pid_t pid)
    {
        int status = 0;
        EXPECT_EQ(waitpid(pid, &status, 0), pid);
        return status;
    }

    image::Scratch dir_;
    sigset_t mask_ = {};
};

TEST_F(StandbyTest, HoldsAllFilesUntilItIsEnded)
{
    const std::string one = file("one");
    const std::string two = file("two");
    Standby standby(plenty);
    const pid_t child = hold(standby, "context.000002", Reads{.files = {one, two}});
    ASSERT_GT(child, 0);
    ASSERT_TRUE(await_word(standby));
    EXPECT_EQ(standby.held(), "context.000002");
    EXPECT_EQ(standby.bytes(), 2 * pages * page_size());
    for (const std::string &path : {one, two}) {
        const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
        posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
        EXPECT_TRUE(is_resident(path)) << path;
    }
    standby.end();
    EXPECT_EQ(standby.held(), "");
    EXPECT_EQ(await_end(child), SIGKILL);
    EXPECT_FALSE(standby.waited_for(child, SIGKILL)) << "it was to end";
}

TEST_F(StandbyTest, LetsTheOneBeforeGo)
{
    const std::string path = file("one");
    Standby standby(plenty);
    const pid_t before = hold(standby, "1", Reads{.files = {path}});
    ASSERT_TRUE(await_word(standby));
    const pid_t child = hold(standby, "2", Reads{.files = {path}});
    EXPECT_EQ(standby.held(), "");
    EXPECT_EQ(await_end(before), SIGKILL);
    ASSERT_TRUE(await_word(standby));
    EXPECT_EQ(standby.held(), "2");
    standby.end();
    await_end(child);
}

TEST_F(StandbyTest, SaysOnceThatTheMemoryIsTooLittle)
{
    const std::string path = file("one");
    Standby standby(page_size());
    for (const bool first : {true, false}) {
        const pid_t child = hold(standby, "context.000001", Reads{.files = {path}});
        ASSERT_TRUE(await_word(standby));
        EXPECT_EQ(standby.held(), "");
        EXPECT_EQ(standby.told().find("context.000001 is not held in memory") == 0, first)
            << standby.told();
        EXPECT_EQ(standby.told().find("memory = 4.0 KiB") != std::string::npos,
                  first && page_size() == 4096)
            << standby.told();
        const int status = await_end(child);
        EXPECT_EQ(status, 0);
        EXPECT_FALSE(standby.waited_for(child, status)) << "it has been told";
    }
}

TEST_F(StandbyTest, SaysWhyTheFilesAreNotKnown)
{
    Standby standby(plenty);
    const pid_t child = hold(standby, "7", Error(ENOENT, "7: is no finished snapshot any more"));
    ASSERT_TRUE(await_word(standby));
    EXPECT_NE(standby.told().find(": 7: is no finished snapshot any more"), std::string::npos);
    await_end(child);
    const pid_t other = hold(standby, "8", Reads{.files = {dir_ / "none"}});
    ASSERT_TRUE(await_word(standby));
    EXPECT_EQ(standby.held(), "");
    await_end(other);
}

TEST_F(StandbyTest, SaysWhatOtherNodesRead)
{
    const std::string path = file("one");
    Standby standby(plenty);
    for (const bool first : {true, false}) {
        const pid_t child = hold(standby, "3", Reads{.files = {path}, .other_nodes = {"n2", "n3"}});
        ASSERT_TRUE(await_word(standby));
        EXPECT_EQ(standby.held(), "3");
        EXPECT_EQ(standby.told().find("but for what is read on n2, n3") != std::string::npos, first)
            << standby.told();
        standby.end();
        await_end(child);
    }
    const pid_t child = hold(standby, "4", Reads{.other_nodes = {"n2"}});
    ASSERT_TRUE(await_word(standby));
    EXPECT_NE(standby.told().find("it is read on n2 alone"), std::string::npos) << standby.told();
    await_end(child);
}

TEST_F(StandbyTest, SaysThatItsProcessWasKilled)
{
    const std::string path = file("one");
    Standby standby(plenty);
    const pid_t child = hold(standby, "1", Reads{.files = {path}});
    ASSERT_TRUE(await_word(standby));
    kill(child, SIGKILL);
    EXPECT_TRUE(standby.waited_for(child, await_end(child)));
    EXPECT_EQ(standby.held(), "");
    EXPECT_NE(standby.told().find("was killed by SIGKILL"), std::string::npos) << standby.told();
    EXPECT_FALSE(standby.waited_for(child, SIGKILL)) << "another process with its number";
}

// Also if it is killed: then it can tell nobody to end.
TEST_F(StandbyTest, EndsWithTheSupervisor)
{
    const std::string path = file("one");
    Result<PipeEnds> number = make_pipe();
    ASSERT_TRUE(number);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t supervisor = fork();
    if (supervisor == 0) {
        Standby standby(plenty);
        const pid_t child = hold(standby, "1", Reads{.files = {path}});
        await_word(standby);
        if (write(number->write.get(), &child, sizeof(child)) == sizeof(child))
            pause();
        _exit(1);
    }
    pid_t child = 0;
    ASSERT_EQ(read(number->read.get(), &child, sizeof(child)), ssize_t(sizeof(child)));
    kill(supervisor, SIGKILL);
    EXPECT_EQ(await_end(supervisor), SIGKILL);
    EXPECT_EQ(await_end(child), SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

} // namespace
} // namespace cryo::recover
