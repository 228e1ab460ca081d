// SPDX-License-Identifier: Apache-2.0
//
// Which nodes make a set, and the file that names racks.
#include "redundancy/choose_sets.hpp"
#include "redundancy/racks.hpp"

#include <algorithm>
#include <cerrno>
#include <gtest/gtest.h>
#include <map>
#include <random>

namespace cryo::redundancy {

namespace {

using Members = std::vector<std::vector<uint32_t>>;

Sets choose(const std::vector<std::string> &racks, uint32_t most, const std::string &scheme = "xor")
{
    const Result<Scheme> parsed = parse_scheme(scheme);
    EXPECT_TRUE(parsed);
    const Result<Sets> sets = choose_sets(racks, most, *parsed);
    EXPECT_TRUE(sets) << (sets ? "" : sets.error().text());
    return sets ? *sets : Sets();
}

TEST(Sets, AreAsFewAsPossible)
{
    EXPECT_EQ(choose({"a", "b", "c", "d"}, 4).members, (Members{{0, 1, 2, 3}}));
    const Sets five = choose({"a", "b", "c", "d", "e"}, 4);
    EXPECT_EQ(five.members, (Members{{0, 2, 4}, {1, 3}}));
    EXPECT_TRUE(five.remarks.empty());
}

TEST(Sets, HaveOneNodeOfARack)
{
    const Sets sets = choose({"n", "n", "s", "s", "e", "e"}, 3);
    EXPECT_EQ(sets.most_of_a_rack, 1U);
    EXPECT_TRUE(sets.remarks.empty());
    for (const std::vector<uint32_t> &one : sets.members)
        EXPECT_EQ(one.size(), 3U);
    // Four sets of two instead of two of four: each rack has four nodes.
    const Sets two_racks = choose({"n", "n", "n", "n", "s", "s", "s", "s"}, 4);
    EXPECT_EQ(two_racks.members.size(), 4U);
    EXPECT_EQ(two_racks.most_of_a_rack, 1U);
}

TEST(Sets, SayWhenARackIsTooLarge)
{
    const Sets sets = choose({"n", "n", "n", "s"}, 4);
    EXPECT_EQ(sets.members, (Members{{0, 1, 2, 3}}));
    ASSERT_EQ(sets.remarks.size(), 1U);
    EXPECT_EQ(sets.remarks[0],
              "a set has 3 nodes of a rack, and may lose 1: the largest rack has 3 of 4 nodes");
    // Two nodes of a set may fail together if two may be lost.
    const Sets enough = choose({"n", "n", "s", "s"}, 4, "rs:2");
    EXPECT_EQ(enough.most_of_a_rack, 2U);
    EXPECT_TRUE(enough.remarks.empty());
}

TEST(Sets, AreLargerWhereASmallerOneWouldHaveTooFew)
{
    const Sets sets = choose({"a", "b", "c"}, 2);
    EXPECT_EQ(sets.members, (Members{{0, 1, 2}}));
    ASSERT_EQ(sets.remarks.size(), 1U);
    EXPECT_EQ(sets.remarks[0],
              "a set has 3 nodes, more than 2: with 3 nodes a smaller one would have too few");
    const Result<Sets> alone = choose_sets({"a"}, 4, Scheme());
    ASSERT_FALSE(alone);
    EXPECT_EQ(alone.error().code(), EINVAL);
    EXPECT_FALSE(choose_sets({}, 4, Scheme()));
    EXPECT_FALSE(choose_sets({"a", "b"}, 1, Scheme()));
    const std::vector<std::string> many(most_members + 1, "a");
    EXPECT_FALSE(choose_sets(many, most_members, *parse_scheme("rs:63")));
}

TEST(Sets, HoldForAnyRacks)
{
    std::mt19937 random(9);
    for (int round = 0; round < 500; round++) {
        const uint32_t most = 2 + random() % 7;
        const uint32_t losses = 1 + random() % (most - 1);
        const size_t nodes = losses + 1 + random() % 60;
        std::vector<std::string> racks;
        std::map<std::string, size_t> sizes;
        for (size_t i = 0; i < nodes; i++) {
            racks.push_back("rack" + std::to_string(random() % 12));
            sizes[racks.back()]++;
        }
        const Sets sets = choose(racks, most, "rs:" + std::to_string(losses));
        std::vector<bool> seen(nodes);
        size_t smallest = nodes;
        size_t largest = 0;
        size_t together = 0;
        for (const std::vector<uint32_t> &one : sets.members) {
            std::map<std::string, size_t> of_rack;
            for (const uint32_t node : one) {
                EXPECT_FALSE(seen[node]);
                seen[node] = true;
                together = std::max(together, ++of_rack[racks[node]]);
            }
            smallest = std::min(smallest, one.size());
            largest = std::max(largest, one.size());
        }
        EXPECT_EQ(std::ranges::count(seen, true), ptrdiff_t(nodes));
        EXPECT_GT(smallest, losses);
        EXPECT_LE(largest - smallest, 1U);
        EXPECT_EQ(together, sets.most_of_a_rack);
        size_t largest_rack = 0;
        for (const auto &[rack, size] : sizes)
            largest_rack = std::max(largest_rack, size);
        // As many sets as the largest rack has nodes are enough, if there may be as many.
        if (largest_rack <= nodes / (losses + 1)) {
            EXPECT_EQ(together, 1U);
        }
        EXPECT_EQ(sets.remarks.empty(), largest <= most && together <= losses);
    }
}

TEST(Racks, AreRead)
{
    const Result<Racks> racks =
        parse_racks("[racks]\nnorth = [\"n1\", \"n2\"]\n'a b' = [\"n3\"]\n", "racks.toml");
    ASSERT_TRUE(racks) << racks.error().text();
    const auto found = racks_of({"n3", "n1"}, *racks);
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, (std::vector<std::string>{"a b", "north"}));
    const auto none = racks_of({"n1", "n9"}, *racks);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code(), ENOENT);
    EXPECT_EQ(none.error().text(), "racks.toml: says nothing of node n9; add it to its rack");
}

TEST(Racks, NameTheLineThatIsWrong)
{
    const std::pair<const char *, const char *> cases[] = {
        {"", "f:"},
        {"racks = 3\n", "f:1: the file has to have a table [racks]"},
        {"[racks]\nn = \"n1\"\n", "f:2: rack 'n' has to be a list of nodes"},
        {"[racks]\nn = [\"n1\", 7]\n", "f:2: rack 'n' has a node that is no text"},
        {"[racks]\nn = [\"n1\"]\ns = [\"n1\"]\n", "f:3: node 'n1' is in rack 'n' already"},
        {"[racks]\nn = [\"n1\"]\n[rooms]\n", "f:3: 'rooms' is nothing that belongs here"},
        {"[racks]\nn = [\"n1\"\ns = []\n", "f:3: "},
    };
    for (const auto &[text, expected] : cases) {
        const Result<Racks> racks = parse_racks(text, "f");
        ASSERT_FALSE(racks) << text;
        EXPECT_EQ(racks.error().code(), EINVAL);
        EXPECT_TRUE(racks.error().text().starts_with(expected)) << racks.error().text();
    }
    const Result<Racks> missing = read_racks("/nowhere/racks.toml");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code(), ENOENT);
}

} // namespace

} // namespace cryo::redundancy
