// SPDX-License-Identifier: Apache-2.0
//
// Repeated loading and unloading, with open descriptors and listeners. CRYO_STORM: how many times;
// CRYO_VM_MODULE: the module's path, as set by scripts/vm. Leaves it loaded.
#include <atomic>
#include <cstdlib>
#include <fcntl.h>
#include <sys/syscall.h>
#include <thread>

#include "device_test.hpp"
#include "events/listener.hpp"

namespace cryo::test {
namespace {

using namespace std::chrono_literals;

int load()
{
    const char *path = getenv("CRYO_VM_MODULE");
    Fd file(open(path ? path : "", O_RDONLY | O_CLOEXEC));
    if (!file)
        return -errno;
    return syscall(SYS_finit_module, file.get(), "", 0) == 0 ? 0 : -errno;
}

int unload()
{
    return syscall(SYS_delete_module, "cryo", O_NONBLOCK) == 0 ? 0 : -errno;
}

bool loaded()
{
    return access("/sys/module/cryo/refcnt", F_OK) == 0;
}

// Four fifths of all rounds run in order, one fifth is a race.
int rounds(int fifths)
{
    const char *text = getenv("CRYO_STORM");
    return (text ? atoi(text) : 50) * fifths / 5;
}

cryo_event started()
{
    cryo_event event = {};
    event.operation = CRYO_OP_CHECKPOINT;
    event.phase = CRYO_PHASE_STARTED;
    return event;
}

class Storm : public testing::Test
{
  protected:
    void SetUp() override { ASSERT_EQ(0, unload()) << "the storm begins without the module"; }
    void TearDown() override
    {
        if (!loaded()) {
            EXPECT_EQ(0, load());
        }
    }
};

TEST_F(Storm, RootUsedWhileLoadedAndGoneAfterwards)
{
    for (int i = 0; i < rounds(4); i++) {
        SCOPED_TRACE("round " + std::to_string(i));
        ASSERT_EQ(0, load());
        ASSERT_EQ(-EEXIST, load());
        {
            auto device = Device::open();
            ASSERT_TRUE(device) << device.error().text();
            Fd copy(dup(device->fd()));
            auto listener = EventListener::join(), silent = EventListener::join();
            ASSERT_TRUE(listener && silent);
            ASSERT_EQ(0, device->announce_raw(started()));
            auto event = listener->next(10s);
            ASSERT_TRUE(event && *event);
            EXPECT_EQ(static_cast<uint32_t>(getpid()), (*event)->pid);
            ASSERT_EQ(-EWOULDBLOCK, unload()) << "an open descriptor holds the module";

            // Listeners do not hold the module, even with unread events; a duplicate does.
            {
                Device gone = *std::move(device);
            }
            ASSERT_EQ(-EWOULDBLOCK, unload());
            copy.reset();
            ASSERT_EQ(0, unload());
            ASSERT_FALSE(loaded());

            // An unloaded module is reported as such.
            auto closed = Device::open();
            ASSERT_FALSE(closed);
            EXPECT_NE(closed.error().text().find("modprobe cryo"), std::string::npos);
            auto deaf = EventListener::join();
            ASSERT_FALSE(deaf);
            EXPECT_EQ(ENODEV, deaf.error().code());
        }
    }
}

TEST_F(Storm, RootUnloadedWhileOthersKeepTrying)
{
    std::atomic<bool> stop = false;
    std::atomic<int> opened = 0, joined = 0;
    std::thread opener([&] {
        while (!stop) {
            if (auto device = Device::open()) {
                (void)device->announce_raw(started());
                opened++;
            }
        }
    });
    std::thread listening([&] {
        while (!stop) {
            if (auto listener = EventListener::join()) {
                (void)listener->next();
                joined++;
            }
        }
    });
    for (int i = 0; i < rounds(1); i++) {
        ASSERT_EQ(0, load()) << "round " << i;
        // Both threads must succeed once per round, so that there is a race at all.
        for (int before = opened; opened == before;)
            sched_yield();
        for (int before = joined; joined == before;)
            sched_yield();
        int rc = 0;
        while ((rc = unload()) == -EWOULDBLOCK)
            sched_yield();
        ASSERT_EQ(0, rc) << "round " << i;
    }
    stop = true;
    opener.join();
    listening.join();
}

} // namespace
} // namespace cryo::test
