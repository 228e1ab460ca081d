// SPDX-License-Identifier: Apache-2.0
// Parts, threads, digests and pauses.
#include "store/digests.hpp"
#include "store/parallel.hpp"
#include "store/retry.hpp"
#include "store/upload.hpp"

#include "store/contents.hpp"

#include <cerrno>
#include <gtest/gtest.h>
#include <mutex>
#include <set>

namespace cryo::store {

namespace {

TEST(Parts, Size)
{
    constexpr uint64_t mib = 1 << 20;
    EXPECT_EQ(16 * mib, part_size_for(1, 16 * mib));
    EXPECT_EQ(16 * mib, part_size_for(160'000 * mib, 16 * mib)); // 10,000 parts
    EXPECT_EQ(17 * mib, part_size_for(160'000 * mib + 1, 16 * mib));
    const uint64_t largest = uint64_t(5) << 40;
    EXPECT_LE((largest + part_size_for(largest, mib) - 1) / part_size_for(largest, mib), 10'000u);
}

TEST(Parallel, EachOnce)
{
    std::atomic<bool> ended = false;
    std::mutex mutex;
    std::multiset<size_t> done;
    const Result<void> all = parallel(100, 4, ended, [&](unsigned worker, size_t part) {
        EXPECT_LT(worker, 4u);
        const std::lock_guard lock(mutex);
        done.insert(part);
        return Result<void>();
    });
    EXPECT_TRUE(all);
    EXPECT_EQ(100u, done.size());
    EXPECT_EQ(100u, std::set<size_t>(done.begin(), done.end()).size());
    EXPECT_FALSE(ended);
}

TEST(Parallel, EndsWithTheFirstError)
{
    std::atomic<bool> ended = false;
    std::atomic<size_t> begun = 0;
    const Result<void> all = parallel(1000, 1, ended, [&](unsigned, size_t part) -> Result<void> {
        begun++;
        if (part == 3)
            return Error(EIO, "three");
        return {};
    });
    ASSERT_FALSE(all);
    EXPECT_EQ("three", all.error().text());
    EXPECT_EQ(4u, begun);
    EXPECT_TRUE(ended);
    EXPECT_TRUE(parallel(0, 4, ended, [](unsigned, size_t) { return Result<void>(); }));
}

TEST(Retry, Pauses)
{
    EXPECT_EQ(200, pause_after_failures(1).count());
    EXPECT_EQ(400, pause_after_failures(2).count());
    EXPECT_EQ(5000, pause_after_failures(6).count());
    EXPECT_EQ(5000, pause_after_failures(4'000'000'000).count());
    Retry none(std::chrono::seconds(0));
    EXPECT_FALSE(none.wait());
    EXPECT_EQ("why", none.given_up(Error(EIO, "why")).text());
}

// Against the values that everybody knows.
TEST(Digests, OfTextAndFile)
{
    const Result<Digests> text = digests_of("abc");
    ASSERT_TRUE(text);
    EXPECT_EQ("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", text->sha256);
    EXPECT_EQ("900150983cd24fb0d6963f7d28e17f72", text->md5);
    EXPECT_EQ("kAFQmDzST7DWlj99KOF/cg==", text->md5_base64);
    const Result<Fd> file = file_of_text("xxabcxx");
    ASSERT_TRUE(file);
    const Result<Digests> part = digests_of(file->get(), "file", 2, 3);
    ASSERT_TRUE(part);
    EXPECT_EQ(text->sha256, part->sha256);
    EXPECT_EQ(EIO, digests_of(file->get(), "file", 6, 3).error().code());
}

} // namespace

} // namespace cryo::store
