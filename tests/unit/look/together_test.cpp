// SPDX-License-Identifier: Apache-2.0
#include "look/together.hpp"

#include <atomic>
#include <cerrno>
#include <gtest/gtest.h>
#include <vector>

namespace cryo::capture {
namespace {

TEST(TogetherInParts, DoesAllOnce)
{
    for (const size_t count : {0, 1, 255, 256, 257, 5000}) {
        std::vector<std::atomic<int>> done(count);
        ASSERT_TRUE(together_in_parts(count, [&](size_t i) -> Result<void> {
            done[i]++;
            return {};
        }));
        for (const std::atomic<int> &one : done)
            ASSERT_EQ(one.load(), 1);
    }
}

TEST(TogetherInParts, FailsWithTheLowestOfAPart)
{
    for (const int bad : {0, 300, 4999}) {
        const Result<void> done = together_in_parts(5000, [&](size_t i) -> Result<void> {
            const int number = static_cast<int>(i);
            return number < bad ? Result<void>() : Error(number == bad ? ENOENT : EIO, "bad");
        });
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code(), ENOENT);
    }
}

} // namespace
} // namespace cryo::capture
