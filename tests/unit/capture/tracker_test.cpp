// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/tracker.hpp"

#include "capture/memory/soft_dirty.hpp"
#include "capture/memory/userfaultfd.hpp"

#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

std::vector<std::pair<uint64_t, uint64_t>> pairs(const std::vector<Run> &runs)
{
    std::vector<std::pair<uint64_t, uint64_t>> all;
    all.reserve(runs.size());
    for (const Run &run : runs)
        all.emplace_back(run.start, run.end);
    return all;
}

using Pairs = std::vector<std::pair<uint64_t, uint64_t>>;
using RunList = std::vector<Run>; // a test also has a type Run

} // namespace

TEST(Runs, Without)
{
    EXPECT_EQ(pairs(without({{0, 10}, {20, 30}}, {})), (Pairs{{0, 10}, {20, 30}}));
    EXPECT_EQ(pairs(without({{0, 10}, {20, 30}}, {{0, 10}})), (Pairs{{20, 30}}));
    EXPECT_EQ(pairs(without({{0, 10}}, {{2, 3}, {5, 6}})), (Pairs{{0, 2}, {3, 5}, {6, 10}}));
    EXPECT_EQ(pairs(without({{0, 10}, {20, 30}}, {{5, 25}})), (Pairs{{0, 5}, {25, 30}}));
    EXPECT_EQ(pairs(without({{5, 6}, {7, 8}}, {{0, 100}})), Pairs());
    EXPECT_EQ(pairs(without({{0, 10}}, {{0, 4}, {0, 4}, {4, 5}})), (Pairs{{5, 10}}));
}

TEST(Runs, PutInOrder)
{
    EXPECT_EQ(pairs(in_order({})), Pairs());
    EXPECT_EQ(pairs(in_order({{20, 30}, {0, 10}})), (Pairs{{0, 10}, {20, 30}}));
    EXPECT_EQ(pairs(in_order({{5, 8}, {0, 10}, {10, 12}, {0, 3}})), (Pairs{{0, 12}}));
}

TEST(Runs, CommonPart)
{
    EXPECT_EQ(pairs(common_part({{0, 10}, {20, 30}}, {{5, 25}})), (Pairs{{5, 10}, {20, 25}}));
    EXPECT_EQ(pairs(common_part({{0, 10}}, {})), Pairs());
    EXPECT_EQ(pairs(common_part({{0, 10}}, {{0, 10}})), (Pairs{{0, 10}}));
}

TEST(Tracker, FindsWhatIsWatched)
{
    const char *smaps = "1000-3000 rw-p 00000000 00:00 0    [heap]\n"
                        "Rss: 4 kB\n"
                        "VmFlags: rd wr mr mw me ac uw\n"
                        "3000-4000 rw-p 00000000 00:00 0 \n"
                        "VmFlags: rd wr mr mw me ac\n"
                        "7f0000000000-7f0000002000 rw-p 00001000 08:01 5    /a file: uw - x\n"
                        "VmFlags: rd uw ac\n";
    EXPECT_EQ(pairs(watched_mappings(smaps)),
              (Pairs{{0x1000, 0x3000}, {0x7f0000000000, 0x7f0000002000}}));
    EXPECT_TRUE(watched_mappings("").empty());
}

// The soft-dirty tracker relies on this between the copy and the clearing of the bits; it must hold
// even if the kernel has no such bits.
TEST(PageMap, TellsWhatWasWrittenSinceAFork)
{
    constexpr uint64_t page = 4096;
    constexpr uint64_t pages = 1500; // several tables
    void *memory =
        mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto *bytes = static_cast<volatile char *>(memory);
    for (uint64_t i = 0; i < pages; i++)
        bytes[i * page] = 1;
    const pid_t copy = fork();
    ASSERT_GE(copy, 0);
    if (copy == 0) {
        for (;;)
            pause();
    }
    for (const uint64_t changed : {3, 4, 700, 1499})
        bytes[changed * page] = 2;
    const int clear = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    ASSERT_EQ(write(clear, "4", 1), 1);
    close(clear);
    const auto at = reinterpret_cast<uint64_t>(memory);
    Result<PageMap> map = PageMap::open(Proc(getpid()));
    ASSERT_TRUE(map);
    const Result<RunList> apart = map->apart(at, at + pages * page);
    const Result<PageMap::SoftDirtyBits> bits = map->soft_dirty(at, at + pages * page);
    kill(copy, SIGKILL);
    waitpid(copy, nullptr, 0);
    munmap(memory, pages * page);
    ASSERT_TRUE(apart);
    EXPECT_EQ(pairs(*apart), (Pairs{{at + 3 * page, at + 5 * page},
                                    {at + 700 * page, at + 701 * page},
                                    {at + 1499 * page, at + 1500 * page}}));
    ASSERT_TRUE(bits);
    EXPECT_TRUE(bits->dirty.empty());
    EXPECT_EQ(bits->pages, pages);
}

TEST(SoftDirty, CountsPagesOfMappings)
{
    const std::vector<CountedMapping> found =
        counted_mappings("1000-3000 rw-p 00000000 00:00 0    [heap]\n"
                         "Rss: 4 kB\n"
                         "Anonymous:             4 kB\n"
                         "AnonHugePages:      2048 kB\n"
                         "Swap:                  8 kB\n"
                         "SwapPss:               8 kB\n"
                         "VmFlags: rd wr mr mw me ac uw\n"
                         "7f0000000000-7f0000002000 rw-p 00001000 08:01 5    /a file: Swap: - x\n"
                         "Anonymous:            12 kB\n");
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].mapping.start, 0x1000U);
    EXPECT_EQ(found[0].mapping.end, 0x3000U);
    EXPECT_EQ(found[0].pages, 3U);
    EXPECT_EQ(found[1].mapping.end, 0x7f0000002000U);
    EXPECT_EQ(found[1].pages, 3U);
    EXPECT_EQ(counted_mappings("1000-3000 rw-p 00000000 00:00 0 \n").size(), 1U);
}

TEST(Userfaultfd, KernelVersions)
{
    EXPECT_TRUE(kernel_is_at_least(2, 99));
    EXPECT_TRUE(kernel_is_at_least(5, 0));
    EXPECT_FALSE(kernel_is_at_least(1000, 0));
}

// A program may protect pages by a userfaultfd of its own: to be asked about takes nothing away.
TEST(Userfaultfd, AskingLeavesTheProtectionOfOthers)
{
    Fd others[2];
    for (Fd &one : others) {
        one.reset(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)));
        uffdio_api api = {UFFD_API, UFFD_FEATURE_PAGEFAULT_FLAG_WP, 0};
        if (!one || ioctl(one.get(), UFFDIO_API, &api) != 0)
            GTEST_SKIP() << "no userfaultfd that protects";
    }
    const auto &[theirs, ours] = others;
    void *memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const auto start = reinterpret_cast<uint64_t>(memory);
    Result<PageMap> map = PageMap::open(Proc(getpid()));
    ASSERT_TRUE(map);
    EXPECT_FALSE(is_registered(ours, *map, RemoteAddress(start)));
    ASSERT_TRUE(is_watched_by(theirs, {start, start + 4096}));
    EXPECT_TRUE(is_registered(theirs, *map, RemoteAddress(start)));
    EXPECT_FALSE(map->is_protected(start));
    uffdio_writeprotect protect = {{start, 4096}, UFFDIO_WRITEPROTECT_MODE_WP};
    ASSERT_EQ(ioctl(theirs.get(), UFFDIO_WRITEPROTECT, &protect), 0);
    EXPECT_FALSE(is_registered(ours, *map, RemoteAddress(start)));
    EXPECT_FALSE(is_watched_by(ours, {start, start + 4096}));
    EXPECT_TRUE(map->is_protected(start));
    munmap(memory, 4096);
}

// Two threads scan it: pages at the ends of the halves, and one run that is in both.
TEST(PageMap, FindsWhatWasWrittenInALargeMapping)
{
    constexpr uint64_t page = 4096;
    constexpr uint64_t size = 3ULL << 30;
    const Fd uffd(
        static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
    uffdio_api api = {};
    api.api = UFFD_API;
    api.features = 1 << 15 | 1 << 13; // WP_ASYNC, WP_UNPOPULATED
    if (!kernel_is_at_least(6, 7) || !uffd || ioctl(uffd.get(), UFFDIO_API, &api) != 0)
        GTEST_SKIP() << "this kernel cannot watch memory so";
    void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_EQ(madvise(memory, size, MADV_NOHUGEPAGE), 0);
    const auto at = reinterpret_cast<uint64_t>(memory);
    ASSERT_TRUE(is_watched_by(uffd, {at, at + size}));
    uffdio_writeprotect protect = {};
    protect.range = {at, size};
    protect.mode = UFFDIO_WRITEPROTECT_MODE_WP;
    ASSERT_EQ(ioctl(uffd.get(), UFFDIO_WRITEPROTECT, &protect), 0);

    const uint64_t middle = size / 2;
    RunList expected = {{at, at + page},
                        {at + middle - 1000 * page, at + middle + 1000 * page},
                        {at + size - page, at + size}};
    for (const auto &run : expected) {
        for (uint64_t address = run.start; address < run.end; address += page)
            *reinterpret_cast<volatile char *>(address) = 1;
    }
    for (uint64_t one = 3; one < 10'000; one += 2) { // more than the list initially has room for
        const uint64_t address = at + size / 4 * 3 + one * page;
        *reinterpret_cast<volatile char *>(address) = 1;
        expected.insert(expected.end() - 1, {address, address + page});
    }
    Result<PageMap> map = PageMap::open(Proc(getpid()));
    ASSERT_TRUE(map);
    const Result<RunList> written = map->written(at, at + size);
    ASSERT_TRUE(written) << written.error().text();
    EXPECT_EQ(pairs(*written), pairs(expected));
    const Result<RunList> unregistered = map->written(at, at + 2 * size);
    EXPECT_FALSE(unregistered) << "the second half is not watched";
    munmap(memory, size);
}

} // namespace cryo::capture
