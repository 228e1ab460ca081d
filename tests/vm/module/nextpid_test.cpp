// SPDX-License-Identifier: Apache-2.0
//
// NEXTPID is compared with the result of fork().
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <grp.h>
#include <sched.h>
#include <sys/wait.h>
#include <thread>

#include "backend/backend.hpp"
#include "backend/native.hpp"
#include "device_test.hpp"
#include "misuse.hpp"
#include "restore/choosing_ids.hpp"
#include "restorer/next_id.hpp"

namespace cryo::test {
namespace {

const Listed nextpid({"NEXTPID",
                      CRYO_IOC_NEXTPID,
                      sizeof(cryo_nextpid),
                      [](void *p) { static_cast<cryo_nextpid *>(p)->pid = 30000; },
                      {offsetof(cryo_nextpid, flags), offsetof(cryo_nextpid, previous)},
                      0,
                      0,
                      0,
                      0,
                      CRYO_FEATURE_NEXTPID});

class NextPid : public DeviceTest
{
  protected:
    // 0, or −errno.
    static long choose(const Device &device, uint32_t pid)
    {
        const long previous = restore::make_next(device.fd(), pid);
        return previous < 0 ? previous : 0;
    }

    static pid_t next_child()
    {
        const pid_t child = fork();
        if (child == 0)
            _exit(0);
        waitpid(child, nullptr, 0);
        return child;
    }

    // Whether a child gets `pid` within some attempts: other processes fork too.
    static bool child_gets(const Device &device, uint32_t pid)
    {
        for (int attempt = 0; attempt < 50; attempt++) {
            EXPECT_EQ(0, choose(device, pid));
            if (next_child() == static_cast<pid_t>(pid))
                return true;
        }
        return false;
    }
};

TEST_F(NextPid, NeedsADescriptorForWriting)
{
    EXPECT_FALSE(device().has(CRYO_FEATURE_NEXTPID));
    EXPECT_EQ(-EPERM, choose(device(), 31000));
}

// The virtual machine's user is a member of the device's group.
TEST_F(NextPid, AChildGetsThePidThatWasChosen)
{
    auto writable = Device::open(Device::Access::ReadWrite);
    ASSERT_TRUE(writable) << writable.error().text();
    EXPECT_TRUE(writable->has(CRYO_FEATURE_NEXTPID));
    for (uint32_t pid : {31234U, 9876U, 31234U, 400U, 32000U})
        EXPECT_TRUE(child_gets(*writable, pid)) << pid;
    // A pid in use is passed over.
    pid_t child = 0;
    ASSERT_EQ(0, choose(*writable, static_cast<uint32_t>(getpid())));
    if ((child = fork()) == 0)
        _exit(0);
    EXPECT_NE(getpid(), child);
    waitpid(child, nullptr, 0);
}

TEST_F(NextPid, ImpossiblePids)
{
    auto writable = Device::open(Device::Access::ReadWrite);
    ASSERT_TRUE(writable) << writable.error().text();
    for (uint32_t pid : {0U, 1U, 4U << 20, 1U << 31, UINT32_MAX})
        EXPECT_EQ(-EINVAL, choose(*writable, pid)) << pid;
    // Above the namespace's limit, below the kernel's: the next child gets an arbitrary pid.
    EXPECT_EQ(0, choose(*writable, (4U << 20) - 1));
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0)
        _exit(0);
    EXPECT_EQ(child, waitpid(child, nullptr, 0));
}

TEST_F(NextPid, AThreadGetsThePidThatWasChosen)
{
    auto writable = Device::open(Device::Access::ReadWrite);
    ASSERT_TRUE(writable) << writable.error().text();
    bool got = false;
    for (int attempt = 0; attempt < 50 && !got; attempt++) {
        ASSERT_EQ(0, choose(*writable, 28765));
        std::thread([&] { got = gettid() == 28765; }).join();
    }
    EXPECT_TRUE(got);
}

TEST_F(NextPid, WhatWasNextIsToldAndGoesBack)
{
    auto writable = Device::open(Device::Access::ReadWrite);
    ASSERT_TRUE(writable) << writable.error().text();
    ASSERT_EQ(0, choose(*writable, 25000));
    const restore::Ids ids = restore::ids_of(writable->fd());
    EXPECT_GE(ids.home, 25000U); // other processes may have forked
    EXPECT_LT(ids.home, 25100U);
    restore::NextId wished(ids, 31000);
    ASSERT_EQ(0, wished.choose());
    EXPECT_GE(restore::make_next(ids.device, 31000), 31000);
    wished.put_back();
    const pid_t child = next_child();
    EXPECT_GE(child, 25000);
    EXPECT_LT(child, 25100);
    EXPECT_FALSE(restore::NextId(ids, getpid()).comes_free());
}

TEST_F(NextPid, LookingChangesNoChoice)
{
    auto writable = Device::open(Device::Access::ReadWrite);
    ASSERT_TRUE(writable) << writable.error().text();
    std::atomic<bool> stop = false;
    std::thread looker([&] {
        while (!stop)
            restore::ids_of(writable->fd());
    });
    int got = 0;
    constexpr int choices = 100;
    for (int i = 0; i < choices; i++) {
        const auto wished = static_cast<uint32_t>(22000 + 20 * i);
        EXPECT_EQ(0, choose(*writable, wished));
        got += next_child() == static_cast<pid_t>(wished);
    }
    stop = true;
    looker.join();
    EXPECT_GE(got, choices * 9 / 10); // other processes fork, too
}

// A restart may take minutes.
TEST_F(NextPid, GoesBackToWhereOthersHaveCome)
{
    auto writable = Device::open(Device::Access::ReadWrite);
    ASSERT_TRUE(writable) << writable.error().text();
    restore::Ids ids = {writable->fd(), 25000};
    for (const int32_t id : {0, 31010, 31000})
        ids.may_choose(id);
    EXPECT_EQ(31000U, ids.least);
    EXPECT_EQ(31010U, ids.greatest);
    ASSERT_EQ(0, choose(*writable, 27000));
    restore::NextId wished(ids, 31000);
    ASSERT_EQ(0, wished.choose());
    wished.put_back();
    pid_t child = next_child();
    EXPECT_GE(child, 27000);
    EXPECT_LT(child, 27100);

    // Another process of the restart has got its id, but has not put back the next one yet; or
    // another rank of the same job is about to get one.
    for (const uint32_t next : {31011U, 30990U, 31100U}) {
        ASSERT_EQ(0, choose(*writable, next));
        restore::NextId other(ids, 31005);
        ASSERT_EQ(0, other.choose());
        other.put_back();
        child = next_child();
        EXPECT_GE(child, 25000) << next;
        EXPECT_LT(child, 25100) << next;
    }
}

// Where /proc/loadavg is another one's, as in a container.
TEST_F(NextPid, GoesBehindItsOwnIdsWhereTheNextOneIsUnknown)
{
    auto writable = Device::open(Device::Access::ReadWrite);
    ASSERT_TRUE(writable) << writable.error().text();
    restore::Ids ids = {writable->fd(), 0};
    for (const int32_t id : {31000, 31050})
        ids.may_choose(id);
    ASSERT_EQ(0, choose(*writable, 31001));
    restore::NextId wished(ids, 31005);
    ASSERT_EQ(0, wished.choose());
    wished.put_back();
    const pid_t child = next_child();
    EXPECT_GE(child, 31051);
    EXPECT_LT(child, 31150);
}

// Whether a user without any right gets the old ids in a restart.
bool nobody_may_choose()
{
    const pid_t child = fork();
    if (child == 0) {
        constexpr uid_t nobody = 65534;
        if (setgroups(0, nullptr) != 0 || setgid(nobody) != 0 || setuid(nobody) != 0)
            _exit(2);
        _exit(restore::may_choose_ids(true) ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(child, waitpid(child, &status, 0));
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    return status == 0;
}

TEST_F(NextPid, RootMayAllowItToAll)
{
    const char *parameter = "/sys/module/cryo/parameters/nextpid_for_all";
    std::ofstream(parameter) << "Y\n";
    EXPECT_TRUE(child_gets(device(), 30123));
    EXPECT_TRUE(nobody_may_choose());
    std::ofstream(parameter) << "N\n";
    EXPECT_EQ(-EPERM, choose(device(), 30123));
    EXPECT_FALSE(nobody_may_choose());
}

// The descriptor of a checkpoint goes to the program, that of a restart does not.
TEST_F(NextPid, RootSavesWithoutTheRightToChoose)
{
    const auto saving = backend::find_module(backend::Purpose::checkpoint);
    ASSERT_TRUE(saving) << saving.error().text();
    EXPECT_EQ(O_RDONLY, fcntl(saving->fd(), F_GETFL) & O_ACCMODE);
    EXPECT_EQ(-EPERM, choose(*saving, 30123));
    const auto restarting = backend::find_module(backend::Purpose::restart);
    ASSERT_TRUE(restarting) << restarting.error().text();
    EXPECT_EQ(O_RDWR, fcntl(restarting->fd(), F_GETFL) & O_ACCMODE);
}

TEST_F(NextPid, RootStaysInsideItsPidNamespace)
{
    auto writable = Device::open(Device::Access::ReadWrite);
    ASSERT_TRUE(writable) << writable.error().text();
    pid_t outer = fork();
    ASSERT_GE(outer, 0);
    if (outer == 0) {
        if (unshare(CLONE_NEWPID))
            _exit(1);
        // Children are now made in another namespace than the caller's own.
        if (choose(*writable, 5000) != -EXDEV)
            _exit(2);
        pid_t init = fork();
        if (init == 0) {
            // Pids are small here; another process outside uses the same number.
            if (choose(*writable, 77) != 0)
                _exit(3);
            pid_t child = fork();
            if (child == 0)
                _exit(0);
            waitpid(child, nullptr, 0);
            _exit(child == 77 ? 0 : 4);
        }
        int status = -1;
        waitpid(init, &status, 0);
        // The outer namespace has continued counting from where it was.
        _exit(!WIFEXITED(status)    ? 5
              : WEXITSTATUS(status) ? WEXITSTATUS(status)
              : init < outer        ? 6
                                    : 0);
    }
    int status = -1;
    ASSERT_EQ(outer, waitpid(outer, &status, 0));
    EXPECT_EQ(0, status);
}

} // namespace
} // namespace cryo::test
