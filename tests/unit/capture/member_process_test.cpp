// SPDX-License-Identifier: Apache-2.0
//
// A process of which no handle could be had when it was found.
#include "capture/member/member_process.hpp"

#include <cerrno>
#include <gtest/gtest.h>
#include <limits>
#include <sys/types.h>

namespace cryo::capture {
namespace {

TEST(MemberProcess, TellsWhyThereIsNoHandle)
{
    const FileOptions options;
    Common common(options);
    Relation nobody;
    nobody.pid = std::numeric_limits<pid_t>::max(); // no kernel counts so far
    MemberProcess process(nobody, Turn(), common);
    errno = EMFILE; // of something else since then
    const Result<void> entered = process.enter();
    ASSERT_FALSE(entered);
    EXPECT_EQ(ESRCH, entered.error().code());
}

} // namespace
} // namespace cryo::capture
