// SPDX-License-Identifier: Apache-2.0
#include "image/messages.hpp"

#include <gtest/gtest.h>

namespace {

using cryo::image::append_message;
using cryo::image::read_messages;

TEST(Messages, ComeBackInOrder)
{
    const std::string long_text(70'000, 'x');
    std::string bytes;
    append_message(bytes, {3, "three"});
    append_message(bytes, {1, ""});
    append_message(bytes, {uint64_t(1) << 62, long_text});
    const auto all = read_messages(bytes);
    ASSERT_TRUE(all);
    ASSERT_EQ(3U, all->size());
    EXPECT_EQ(3U, all->at(0).type);
    EXPECT_EQ("three", all->at(0).text);
    EXPECT_EQ(1U, all->at(1).type);
    EXPECT_EQ("", all->at(1).text);
    EXPECT_EQ(uint64_t(1) << 62, all->at(2).type);
    EXPECT_EQ(long_text, all->at(2).text);
}

TEST(Messages, AreNoneOrDamaged)
{
    std::string bytes;
    EXPECT_TRUE(read_messages(bytes)->empty());
    append_message(bytes, {3, "three"});
    for (size_t length = 1; length < bytes.size(); length++)
        EXPECT_FALSE(read_messages(std::string_view(bytes).substr(0, length))) << length;
}

} // namespace
