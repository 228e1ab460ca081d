// SPDX-License-Identifier: Apache-2.0
#include "look/thread_flags.hpp"

#include <gtest/gtest.h>

namespace cryo::capture {
namespace {

TEST(ThreadFlags, TellWhoWritesMemoryOut)
{
    // PF_RANDOMIZE 0x400000, PF_MEMALLOC_NOIO 0x80000, PF_LOCAL_THROTTLE 0x100000
    EXPECT_FALSE(is_io_flusher("7 (sh) S 1 7 7 0 -1 4194304 100 0 0 0"));
    EXPECT_TRUE(is_io_flusher("7 (sh) S 1 7 7 0 -1 5767168 100 0 0 0"));
    EXPECT_FALSE(is_io_flusher("7 (sh) S 1 7 7 0 -1 4718592 100 0 0 0")); // one of them alone
    EXPECT_FALSE(is_io_flusher("7 (sh) S 1 7 7 0 -1 5242880 100 0 0 0"));
}

TEST(ThreadFlags, ComeAfterAnyName)
{
    EXPECT_TRUE(is_io_flusher("7 (a) S 1 7 7 0 -1 4194304 (b) S 1 7 7 0 -1 5767168 100 0 0 0"));
    EXPECT_FALSE(is_io_flusher("7 (1 2 3 4 5 6 5767168) S 1 7 7 0 -1 4194304 100 0 0 0"));
}

TEST(ThreadFlags, AreNotThereInWhatIsCutShort)
{
    for (const char *text : {"", ")", "7 (sh", "7 (sh) S 1 7 7 0"})
        EXPECT_FALSE(is_io_flusher(text)) << text;
}

} // namespace
} // namespace cryo::capture
