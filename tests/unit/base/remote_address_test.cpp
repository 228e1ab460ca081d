// SPDX-License-Identifier: Apache-2.0
#include "base/remote_address.hpp"
#include "base/remote_address_text.hpp"

#include <cstdint>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <type_traits>

namespace cryo {
namespace {

template <class From, class To>
constexpr bool becomes = std::is_convertible_v<From, To>;

// An address there is no address here, and no number by accident.
static_assert(!becomes<RemoteAddress, void *> && !becomes<RemoteAddress, const char *>);
static_assert(!becomes<RemoteAddress, uint64_t> && !becomes<uint64_t, RemoteAddress>);
static_assert(!becomes<void *, RemoteAddress> && !std::is_constructible_v<RemoteAddress, void *>);
static_assert(!std::is_constructible_v<char *, RemoteAddress>);

constexpr RemoteAddress start(0x7f0000001000);

TEST(RemoteAddress, IsCountedInBytes)
{
    RemoteAddress at = start;
    at += 0x1000;
    EXPECT_EQ(start + 0x1000, at);
    EXPECT_EQ(start, at - 0x1000);
    EXPECT_EQ(0x1000U, at - start);
    EXPECT_EQ(0x7f0000002000U, at.number());
    EXPECT_EQ(RemoteAddress(0), RemoteAddress());
}

TEST(RemoteAddress, IsComparedWithoutASign)
{
    const RemoteAddress vsyscall(0xffffffffff600000);
    EXPECT_LT(start, vsyscall);
    EXPECT_GE(vsyscall, start);
    EXPECT_NE(vsyscall, start);
}

TEST(RemoteAddress, IsWrittenAsItsNumber)
{
    EXPECT_EQ("at 7f0000001000", fmt::format("at {:x}", start));
    EXPECT_EQ("0x00007f0000001000", fmt::format("{:#018x}", start));
}

} // namespace
} // namespace cryo
