// SPDX-License-Identifier: Apache-2.0
//
// Schemes, and which blocks of a set belong together.
#include "redundancy/rows.hpp"

#include <cerrno>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

namespace cryo::redundancy {

namespace {

Scheme scheme_of(const std::string &text)
{
    const Result<Scheme> scheme = parse_scheme(text);
    EXPECT_TRUE(scheme);
    return *scheme;
}

TEST(Schemes, AreReadAndWritten)
{
    for (const char *text : {"partner", "xor", "rs:2", "rs:63"})
        EXPECT_EQ(text_of(scheme_of(text)), text);
    EXPECT_EQ(text_of(scheme_of("rs:1")), "xor");
    for (const char *text : {"", "raid", "XOR", "rs", "rs:", "rs:0", "rs:64", "rs:-1", "rs:2x",
                             "rs: 2", "rs:99999999999"}) {
        const Result<Scheme> none = parse_scheme(text);
        ASSERT_FALSE(none) << text;
        EXPECT_EQ(none.error().code(), EINVAL);
        EXPECT_NE(none.error().text().find("choose partner"), std::string::npos);
    }
}

TEST(Schemes, SayWhichLossIsTooMuch)
{
    const std::vector<std::string> four = {"a", "b", "c", "d"};
    EXPECT_TRUE(check_loss(scheme_of("xor"), four, {false, true, false, false}));
    const Result<void> two = check_loss(scheme_of("xor"), four, {true, false, false, true});
    ASSERT_FALSE(two);
    EXPECT_EQ(two.error().text(), "2 nodes of a set are lost (a, d), and xor brings back 1");
    EXPECT_TRUE(check_loss(scheme_of("rs:2"), four, {true, false, false, true}));
    EXPECT_FALSE(check_loss(scheme_of("rs:2"), four, {true, true, false, true}));
    EXPECT_TRUE(check_loss(scheme_of("partner"), four, {true, false, true, false}));
    const Result<void> pair = check_loss(scheme_of("partner"), four, {true, false, false, true});
    ASSERT_FALSE(pair);
    EXPECT_EQ(pair.error().text(), "d is lost together with a, which had the copy of its images");
}

// Every block is in one row, each row has as much parity as the scheme says, of other members.
TEST(Rows, HaveEachBlockOnce)
{
    std::mt19937 random(5);
    for (int round = 0; round < 300; round++) {
        const uint32_t members = 2 + random() % 7;
        const uint32_t losses = 1 + random() % (members - 1);
        const Scheme scheme =
            random() % 4 == 0 ? scheme_of("partner") : scheme_of("rs:" + std::to_string(losses));
        std::vector<uint64_t> blocks;
        for (uint32_t i = 0; i < members; i++)
            blocks.push_back(random() % 3 == 0 ? 0 : random() % 40);
        Rows rows(scheme, blocks);
        std::vector<uint64_t> given(members);
        uint64_t last = 0;
        for (bool first = true; rows.next(); first = false) {
            EXPECT_TRUE(first || rows.number() > last);
            last = rows.number();
            EXPECT_EQ(rows.data().size(), rows.data_count());
            EXPECT_EQ(rows.parity().size(), rows.parity_count());
            std::set<uint32_t> all(rows.data().begin(), rows.data().end());
            all.insert(rows.parity().begin(), rows.parity().end());
            EXPECT_EQ(all.size(), rows.data_count() + rows.parity_count());
            uint64_t gives = 0;
            for (const uint32_t member : rows.data()) {
                gives += rows.gives(member) ? 1 : 0;
                given[member] += rows.gives(member) ? 1 : 0;
            }
            EXPECT_GT(gives, 0U);
        }
        EXPECT_EQ(given, blocks);
    }
}

// With equal members, xor of k takes 1/(k-1) of their bytes for parity, and each keeps as much.
TEST(Rows, ShareTheParity)
{
    Rows rows(scheme_of("xor"), {300, 300, 300, 300});
    std::map<uint32_t, int> kept;
    while (rows.next()) {
        for (const uint32_t member : rows.parity())
            kept[member]++;
    }
    for (uint32_t member = 0; member < 4; member++)
        EXPECT_EQ(kept[member], 100);
}

TEST(Rows, OfPartnersAreCopies)
{
    Rows rows(scheme_of("partner"), {1, 0, 2});
    std::vector<std::pair<uint32_t, uint32_t>> copies;
    while (rows.next())
        copies.emplace_back(rows.data()[0], rows.parity()[0]);
    const std::vector<std::pair<uint32_t, uint32_t>> expected = {{0, 1}, {2, 0}, {2, 0}};
    EXPECT_EQ(copies, expected);
}

} // namespace

} // namespace cryo::redundancy
