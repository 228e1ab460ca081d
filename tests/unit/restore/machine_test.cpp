// SPDX-License-Identifier: Apache-2.0
// An image of another architecture is refused by its own error.
#include "libcr.h"
#include "restore/planner.hpp"

#include <gtest/gtest.h>

namespace {

TEST(Machine, AnotherOneIsRefused)
{
    constexpr uint16_t aarch64 = 183;
    cryo::image::Header header;
    EXPECT_TRUE(cryo::restore::check_machine(header));
    header.machine = aarch64;
    const cryo::Result<void> refused = cryo::restore::check_machine(header);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), CR_EBADARCH);
    EXPECT_NE(refused.error().text().find("183"), std::string::npos);
}

} // namespace
