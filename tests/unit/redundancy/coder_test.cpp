// SPDX-License-Identifier: Apache-2.0
//
// Rows of blocks: every loss that the coder promises to make good, and one more.
#include "redundancy/coder.hpp"

#include <algorithm>
#include <bit>
#include <gtest/gtest.h>
#include <random>
#include <tuple>

namespace cryo::redundancy {

namespace {

constexpr size_t block = 4096;

std::vector<std::vector<uint8_t>> contents(const Blocks &row)
{
    std::vector<std::vector<uint8_t>> all;
    for (size_t i = 0; i < row.count(); i++)
        all.emplace_back(row[i].begin(), row[i].end());
    return all;
}

void fill(Blocks &row, size_t data, unsigned seed)
{
    std::mt19937 random(seed);
    for (size_t i = 0; i < data; i++) {
        for (uint8_t &byte : row[i])
            byte = static_cast<uint8_t>(random());
    }
}

// (data, parity)
class CoderOf : public testing::TestWithParam<std::tuple<uint32_t, uint32_t>>
{};

TEST_P(CoderOf, MakesGoodAllLossesUpToItsParity)
{
    const auto [data, parity] = GetParam();
    Coder coder(data, parity, block);
    Blocks row(data + parity, block);
    fill(row, data, 7);
    coder.encode(row);
    const auto whole = contents(row);
    for (uint32_t which = 0; which < 1U << row.count(); which++) {
        std::vector<bool> missing;
        for (size_t i = 0; i < row.count(); i++) {
            missing.push_back((which >> i & 1) != 0);
            if (missing.back())
                std::ranges::fill(row[i], uint8_t(0xee));
        }
        const bool possible = std::popcount(which) <= int(parity);
        EXPECT_EQ(coder.recover(row, missing), possible);
        if (possible) {
            EXPECT_EQ(contents(row), whole) << which;
        }
        for (size_t i = 0; i < row.count(); i++)
            std::ranges::copy(whole[i], row[i].begin());
    }
}

INSTANTIATE_TEST_SUITE_P(Small, CoderOf,
                         testing::Values(std::tuple(1, 1), std::tuple(2, 1), std::tuple(5, 1),
                                         std::tuple(1, 2), std::tuple(3, 2), std::tuple(4, 3),
                                         std::tuple(6, 4)));

TEST(Coder, MakesPlainParityOfOne)
{
    Coder coder(3, 1, block);
    Blocks row(4, block);
    fill(row, 3, 3);
    coder.encode(row);
    for (size_t i = 0; i < block; i++)
        ASSERT_EQ(row[3][i], row[0][i] ^ row[1][i] ^ row[2][i]);
}

TEST(Coder, MakesGoodAnyLossesOfTheLargestSet)
{
    constexpr uint32_t data = 58;
    constexpr uint32_t parity = 6;
    Coder coder(data, parity, block);
    Blocks row(data + parity, block);
    fill(row, data, 11);
    coder.encode(row);
    const auto whole = contents(row);
    std::mt19937 random(12);
    for (int round = 0; round < 50; round++) {
        std::vector<bool> missing(row.count());
        for (uint32_t i = 0; i < parity; i++) {
            const size_t lost = random() % row.count();
            missing[lost] = true;
            std::ranges::fill(row[lost], uint8_t(0));
        }
        ASSERT_TRUE(coder.recover(row, missing));
        ASSERT_EQ(contents(row), whole) << round;
    }
}

} // namespace

} // namespace cryo::redundancy
