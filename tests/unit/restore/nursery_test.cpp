// SPDX-License-Identifier: Apache-2.0
// The processes of a restart: their parents, sessions, groups and zombies; and none of them left if
// one cannot be made.
#include "restore/nursery.hpp"

#include "base/fd.hpp"
#include "look/proc.hpp"
#include "look/sharing.hpp"
#include "restore/choosing_ids.hpp"
#include "restorer/plan.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

namespace {

using cryo::Fd;
using cryo::restore::Newborn;
using cryo::restore::nobody;
using cryo::restore::Nursery;

struct Stat {
    char state = 0;
    int ppid = 0, pgid = 0, sid = 0;
};

Stat stat_of(pid_t pid)
{
    Stat stat;
    const auto text = cryo::capture::Proc(pid).read("stat");
    if (!text)
        return stat;
    std::string_view rest = *text;
    rest.remove_prefix(rest.rfind(')') + 2);
    stat.state = cryo::capture::take_word(rest).front();
    stat.ppid = static_cast<int>(cryo::capture::take_number(rest));
    stat.pgid = static_cast<int>(cryo::capture::take_number(rest));
    stat.sid = static_cast<int>(cryo::capture::take_number(rest));
    return stat;
}

// Waits until a sleeper has become a shell that reads from its descriptor 5.
void await_sleeping(pid_t pid)
{
    const cryo::capture::Proc proc(pid);
    for (;;) {
        const auto comm = proc.read("comm");
        const char state = stat_of(pid).state;
        ASSERT_TRUE(comm && state != 'Z') << "the shell has ended";
        if (*comm == "sh\n" && state == 'S')
            return;
        sched_yield();
    }
}

// Waits until the process is in nanosleep or has ended.
void await_pause(pid_t pid)
{
    const cryo::capture::Proc proc(pid);
    for (;;) {
        const auto call = proc.read("syscall");
        if (stat_of(pid).state == 'Z' || (call && call->starts_with("35 "))) // nanosleep
            return;
        sched_yield();
    }
}

class NurseryTest : public testing::Test
{
  protected:
    void SetUp() override
    {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        int ends[2];
        ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
        live_.reset(ends[0]);
        end_.reset(ends[1]);
        ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
        failures_.reset(ends[0]);
        report_.reset(ends[1]);
    }
    void TearDown() override
    {
        EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process was left";
        EXPECT_EQ(errno, ECHILD);
    }

    // Lives until end_ is closed.
    Newborn sleeper(int parent, int session, int group)
    {
        Newborn child;
        child.parent = parent;
        child.session = session;
        child.group = group;
        child.exe = "/bin/sh";
        child.arguments = {"sh", "-c", "read line <&5"};
        child.environment = {"A=B"};
        child.descriptors = {live_.get(), report_.get()};
        child.floor = 5;
        child.report = 1;
        return child;
    }

    Fd live_, end_, failures_, report_;
};

// Memory shared with the processes may be unavailable: the restart then ends before making any.
TEST(Nursery, HasNothingToEndBeforeItHasMadeAnything)
{
    Nursery nursery;
    nursery.add({});
    nursery.end_all();
}

TEST_F(NurseryTest, RelationsAreAsAsked)
{
    Nursery nursery;
    const auto add = [&](int parent, int session, int group) {
        return static_cast<int>(nursery.add(sleeper(parent, session, group)));
    };
    const int root = add(nobody, nobody, nobody);
    const int other_group = add(root, nobody, 1);
    const int joined = add(root, nobody, other_group);
    const int leader = add(root, 3, 3);
    const int grandchild = add(leader, leader, leader);
    const int old_session = add(leader, nobody, nobody);
    auto born = nursery.make();
    ASSERT_TRUE(born) << born.error().text();
    const auto pid = [&](int i) { return (*born)[static_cast<size_t>(i)]; };
    EXPECT_EQ(stat_of(pid(root)).ppid, getpid());
    EXPECT_EQ(stat_of(pid(root)).pgid, getpgrp());
    EXPECT_EQ(stat_of(pid(root)).sid, getsid(0));
    EXPECT_EQ(stat_of(pid(other_group)).pgid, pid(other_group));
    EXPECT_EQ(stat_of(pid(other_group)).sid, getsid(0));
    EXPECT_EQ(stat_of(pid(joined)).ppid, pid(root));
    EXPECT_EQ(stat_of(pid(joined)).pgid, pid(other_group));
    EXPECT_EQ(stat_of(pid(leader)).sid, pid(leader));
    EXPECT_EQ(stat_of(pid(leader)).pgid, pid(leader));
    EXPECT_EQ(stat_of(pid(grandchild)).ppid, pid(leader));
    EXPECT_EQ(stat_of(pid(grandchild)).sid, pid(leader));
    EXPECT_EQ(stat_of(pid(old_session)).ppid, pid(leader));
    EXPECT_EQ(stat_of(pid(old_session)).sid, getsid(0));
    EXPECT_EQ(stat_of(pid(old_session)).pgid, getpgrp());
    nursery.end_all();
    for (const pid_t one : *born)
        EXPECT_EQ(kill(one, 0), -1);
}

// Also after the execve of all.
TEST_F(NurseryTest, ChildrenShareWhatTheyShared)
{
    if (!cryo::capture::are_sharers(CLONE_FS, getpid(), getpid()))
        GTEST_SKIP() << "kcmp(2) may not be called here";
    Nursery nursery;
    const auto add = [&](int parent, uint64_t shares) {
        Newborn child = sleeper(parent, nobody, nobody);
        child.shares = shares;
        return static_cast<int>(nursery.add(child));
    };
    const int root = add(nobody, 0);
    constexpr uint64_t all = CLONE_FS | CLONE_IO | CLONE_SYSVSEM;
    const int sharer = add(root, all);
    const int apart = add(sharer, 0);
    const int third = add(sharer, all);
    auto born = nursery.make();
    ASSERT_TRUE(born) << born.error().text();
    const auto pid = [&](int i) { return (*born)[static_cast<size_t>(i)]; };
    for (const int one : {root, sharer, apart, third})
        await_sleeping(pid(one));
    const auto shares = [&](int one, int other) {
        return cryo::capture::are_sharers(CLONE_FS, pid(one), pid(other));
    };
    EXPECT_EQ(shares(root, sharer), true);
    EXPECT_EQ(shares(root, third), true);
    EXPECT_EQ(shares(sharer, apart), false);
    EXPECT_EQ(cryo::capture::are_sharers(CLONE_FS, getpid(), pid(root)), false);
    const std::vector<std::vector<size_t>> expected = {{0, 1, 3}};
    EXPECT_EQ(cryo::capture::sharers(CLONE_SYSVSEM, *born), expected);
    if (syscall(SYS_ioprio_set, 1, 0, 0) == 0) {
        EXPECT_EQ(cryo::capture::sharers(CLONE_IO, *born), expected);
    }
    nursery.end_all();
}

TEST_F(NurseryTest, FilesOfProcAreAboutTheProcessesThatAreMade)
{
    constexpr int number = 50;
    const Fd place(open("/", O_PATH | O_CLOEXEC));
    const Fd kept(fcntl(place.get(), F_DUPFD_CLOEXEC, number));
    ASSERT_TRUE(kept);
    Nursery nursery;
    nursery.keep(kept.get());
    const auto opens = [&](int parent, int about, const char *name) {
        Newborn child = sleeper(parent, nobody, nobody);
        child.proc_files.push_back(
            {.fd = kept.get(), .process = about, .name = name, .flags = O_RDONLY, .position = 2});
        return static_cast<int>(nursery.add(child));
    };
    const int parent = opens(nobody, 1, "stat");
    const int child = opens(parent, parent, "");
    auto born = nursery.make();
    ASSERT_TRUE(born) << born.error().text();
    const auto pid = [&](int i) { return (*born)[static_cast<size_t>(i)]; };
    for (const int one : {parent, child})
        await_sleeping(pid(one));
    const auto at = "fd/" + std::to_string(kept.get());
    const auto link = [&](int i) { return cryo::capture::Proc(pid(i)).link(at); };
    EXPECT_EQ(*link(parent), "/proc/" + std::to_string(pid(child)) + "/stat");
    EXPECT_EQ(*link(child), "/proc/" + std::to_string(pid(parent)));
    const auto info = cryo::capture::Proc(pid(parent)).read("fdinfo/" + std::to_string(kept.get()));
    EXPECT_EQ(info->substr(0, info->find('\n')), "pos:\t2");
    nursery.end_all();
}

TEST_F(NurseryTest, NoneGetsTheIdThatAThreadWillHave)
{
    constexpr int number = 8;
    const pid_t before = fork();
    if (before == 0)
        _exit(0);
    ASSERT_EQ(waitpid(before, nullptr, 0), before);
    Nursery nursery;
    Newborn one = sleeper(nobody, nobody, nobody);
    for (int i = 1; i <= number; i++)
        one.threads.push_back(before + i); // what the kernel would give next
    nursery.add(one);
    nursery.add(sleeper(0, nobody, nobody));
    auto born = nursery.make();
    ASSERT_TRUE(born) << born.error().text();
    for (const pid_t pid : *born)
        EXPECT_TRUE(pid < before || pid > before + number) << pid << " after " << before;
    nursery.end_all();
}

// In a session that only its leader can pass on; children of this process, or orphans.
TEST_F(NurseryTest, OrphansAreLeft)
{
    Nursery nursery;
    const int leader = static_cast<int>(nursery.add(sleeper(nobody, 0, 0)));
    const int ours = static_cast<int>(nursery.add(sleeper(3, leader, leader)));
    const int orphan = static_cast<int>(nursery.add(sleeper(4, leader, nobody)));
    Newborn late;
    late.parent = leader;
    late.session = leader;
    late.stand_in = true;
    Newborn foster;
    foster.parent = static_cast<int>(nursery.add(late));
    foster.session = leader;
    foster.foster = true;
    const int last = static_cast<int>(nursery.add(foster));
    auto born = nursery.make();
    ASSERT_TRUE(born) << born.error().text();
    const auto pid = [&](int i) { return (*born)[static_cast<size_t>(i)]; };
    for (const int one : {leader, ours, orphan}) {
        await_sleeping(pid(one));
        EXPECT_EQ(stat_of(pid(one)).sid, pid(leader));
    }
    EXPECT_EQ(stat_of(pid(ours)).ppid, getpid());
    EXPECT_EQ(stat_of(pid(orphan)).ppid, pid(last));
    ASSERT_TRUE(nursery.leave_orphans());
    EXPECT_EQ(kill(pid(last), 0), -1);
    EXPECT_NE(stat_of(pid(orphan)).ppid, getpid());
    EXPECT_NE(stat_of(pid(orphan)).ppid, pid(leader));
    EXPECT_EQ(stat_of(pid(ours)).ppid, getpid());
    int subreaper = 0;
    prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
    EXPECT_EQ(subreaper, 1);
    nursery.end_all();
    const char state = stat_of(pid(orphan)).state;
    EXPECT_TRUE(state == 0 || state == 'Z' || state == 'X') << state;
}

TEST_F(NurseryTest, ZombiesWaitForTheirParent)
{
    Nursery nursery;
    const auto parent = static_cast<int>(nursery.add(sleeper(nobody, nobody, nobody)));
    // One also joins the group of a process made after it.
    for (const int status : {3 << 8, int(SIGTERM), int(SIGKILL)}) {
        Newborn child;
        child.parent = parent;
        child.group = status == SIGKILL ? 4 : nobody;
        child.zombie = true;
        child.wait_status = status;
        nursery.add(child);
    }
    nursery.add(sleeper(parent, nobody, 4));
    const auto born = nursery.make();
    ASSERT_TRUE(born) << born.error().text();
    await_sleeping((*born)[0]);
    // A shell reaps its children only when it runs something: they are still zombies.
    for (size_t i = 1; i <= 3; i++) {
        EXPECT_EQ(stat_of((*born)[i]).state, 'Z');
        EXPECT_EQ(stat_of((*born)[i]).ppid, (*born)[0]);
    }
    EXPECT_EQ(stat_of((*born)[3]).pgid, (*born)[4]);
    // The zombies' statuses, as seen by this process, which inherits the zombies.
    kill((*born)[0], SIGKILL);
    waitpid((*born)[0], nullptr, 0);
    int status = 0;
    ASSERT_EQ(waitpid((*born)[1], &status, 0), (*born)[1]);
    EXPECT_EQ(status, 3 << 8);
    ASSERT_EQ(waitpid((*born)[2], &status, 0), (*born)[2]);
    EXPECT_EQ(status, SIGTERM);
    nursery.end_all();
}

// As a forged image may have them: nobody would make the two, and the third waits for their
// session.
TEST_F(NurseryTest, ACircleOfParentsIsRefused)
{
    Nursery nursery;
    nursery.add(sleeper(nobody, nobody, nobody));
    nursery.add(sleeper(2, 1, 1));
    nursery.add(sleeper(1, 2, 2));
    nursery.add(sleeper(1, nobody, nobody));
    const auto born = nursery.make();
    ASSERT_FALSE(born);
    EXPECT_EQ(EINVAL, born.error().code());
    EXPECT_NE(std::string::npos, born.error().text().find("descends from itself"));
}

TEST_F(NurseryTest, AnIdInUseLeavesNobodyBehind)
{
    Nursery nursery;
    const auto root = static_cast<int>(nursery.add(sleeper(nobody, nobody, nobody)));
    nursery.add(sleeper(root, nobody, nobody));
    Newborn third = sleeper(root, nobody, nobody);
    third.pid = getpid();
    nursery.add(third);
    const auto born = nursery.make();
    ASSERT_FALSE(born);
    // A user who may not choose ids gets that error instead.
    EXPECT_TRUE(born.error().code() == EBUSY || born.error().code() == EPERM);
    EXPECT_NE(born.error().text().find(std::to_string(getpid())), std::string::npos);
}

TEST_F(NurseryTest, AProgramThatIsNotThereIsReported)
{
    Nursery nursery;
    Newborn child = sleeper(nobody, nobody, nobody);
    child.exe = "/nonexistent/program";
    nursery.add(child);
    const auto born = nursery.make();
    ASSERT_TRUE(born) << born.error().text();
    cryo::restore::Failure failure = {};
    ASSERT_EQ(read(failures_.get(), &failure, sizeof(failure)), ssize_t(sizeof(failure)));
    EXPECT_EQ(failure.error, ENOENT);
    nursery.end_all();
}

TEST_F(NurseryTest, DescriptorsLieFromTheFloorOn)
{
    Nursery nursery;
    Newborn child = sleeper(nobody, nobody, nobody);
    child.descriptors = {live_.get(), report_.get(), -1, live_.get()};
    nursery.add(child);
    const auto born = nursery.make();
    ASSERT_TRUE(born) << born.error().text();
    await_sleeping((*born)[0]);
    const cryo::capture::Proc proc((*born)[0]);
    const auto pipe_name = cryo::capture::Proc(getpid()).link("fd/" + std::to_string(live_.get()));
    const auto numbers = proc.numbers("fd");
    ASSERT_TRUE(numbers);
    std::vector<int> high;
    for (const int fd : *numbers) {
        if (fd >= 5 && fd < 10) // the shell keeps a descriptor of its own at 10
            high.push_back(fd);
    }
    EXPECT_EQ(high, (std::vector<int>{5, 6, 8}));
    EXPECT_EQ(*proc.link("fd/8"), *pipe_name);
    nursery.end_all();
}

// The leader has been reaped, but its id is still taken: here by its group, in newer kernels also
// briefly by nothing visible. The restart must wait for it instead of failing as clone3 does.
TEST_F(NurseryTest, AnIdThatNobodyIsSeenToHaveIsWaitedFor)
{
    const pid_t leader = fork();
    if (leader == 0) {
        setpgid(0, 0);
        _exit(0);
    }
    setpgid(leader, leader);
    const pid_t member = fork();
    if (member == 0) {
        setpgid(0, leader);
        end_.reset();
        char end;
        (void)!read(live_.get(), &end, 1);
        _exit(0);
    }
    setpgid(member, leader);
    ASSERT_EQ(waitpid(leader, nullptr, 0), leader);
    ASSERT_EQ(getpgid(member), leader);
    const pid_t asking = fork();
    if (asking == 0) {
        end_.reset();
        const long got = cryo::restore::make_process(leader, {}, nullptr, 0);
        if (got == 0)
            _exit(0);
        _exit(got == leader && waitpid(leader, nullptr, 0) == leader ? 0 : static_cast<int>(-got));
    }
    await_pause(asking);
    end_.reset();
    ASSERT_EQ(waitpid(member, nullptr, 0), member);
    int status;
    ASSERT_EQ(waitpid(asking, &status, 0), asking);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == EPERM)
        GTEST_SKIP() << "ids cannot be chosen";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

// By looking only: the descriptor here is no device.
TEST(Ids, TheNextOneIsKnownWithoutTheModule)
{
    struct statfs system = {};
    if (statfs("/proc/loadavg", &system) != 0 || system.f_type != PROC_SUPER_MAGIC)
        GTEST_SKIP() << "the kernel's /proc/loadavg is not there";
    bool near = false;
    for (int attempt = 0; attempt < 20 && !near; attempt++) { // others fork, and ids start over
        const pid_t child = fork();
        if (child == 0)
            _exit(0);
        ASSERT_EQ(waitpid(child, nullptr, 0), child);
        const auto last = static_cast<uint32_t>(child);
        const uint32_t next = cryo::restore::ids_of(STDIN_FILENO).home;
        near = next > last && next < last + 1000;
    }
    EXPECT_TRUE(near);
    EXPECT_EQ(cryo::restore::ids_of(-1).home, 0U);
}

// In a container lxcfs puts such a file there, with ids of the host.
TEST(Ids, AnotherOnesLoadTellsNone)
{
    const std::string load = testing::TempDir() + "loadavg." + std::to_string(getpid());
    std::ofstream(load) << "0.10 0.20 0.30 1/200 123456\n";
    EXPECT_EQ(cryo::restore::ids_of(STDIN_FILENO, load.c_str()).home, 0U);
    std::filesystem::remove(load);
    EXPECT_EQ(cryo::restore::ids_of(STDIN_FILENO, load.c_str()).home, 0U);
}

} // namespace
