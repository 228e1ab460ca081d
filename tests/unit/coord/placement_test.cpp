// SPDX-License-Identifier: Apache-2.0
//
// Which ranks get which nodes by weights: totals, moves, and what is refused.
#include "coord/placement.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace cryo::coord;
using cryo::Result;
using Names = std::vector<std::string>;
using Numbers = std::vector<size_t>;

namespace {

std::vector<Weight> weights(const std::string &text)
{
    const Result<std::vector<Weight>> found = parse_weights(text, "--weights");
    EXPECT_TRUE(found) << text;
    return found ? *found : std::vector<Weight>();
}

Placement place(const Names &before, const std::string &text, Order order = Order::any)
{
    const Result<Placement> found = place_ranks(before, weights(text), order);
    EXPECT_TRUE(found) << text;
    return found ? *found : Placement();
}

std::string weights_text(const std::vector<Weight> &weights)
{
    std::string text;
    for (const Weight &one : weights)
        text += fmt::format("{}{}={}", text.empty() ? "" : ",", one.node, one.weight);
    return text;
}

std::string why_not(const std::string &text)
{
    const Result<std::vector<Weight>> found = parse_weights(text, "--weights");
    EXPECT_FALSE(found) << text;
    EXPECT_EQ(found ? 0 : found.error().code(), EINVAL);
    return found ? "" : found.error().text();
}

} // namespace

TEST(Placement, WeightsAreReadFromAWordOrLines)
{
    EXPECT_EQ(weights_text(weights("a=7,b=3,c=6")), "a=7,b=3,c=6");
    EXPECT_EQ(weights_text(weights("# all, of them\n a = 7\n\nb=3 # slow, old\nc.cluster=6,")),
              "a=7,b=3,c.cluster=6");
}

TEST(Placement, WhatIsNoWeightIsNamed)
{
    EXPECT_EQ(why_not(""), "--weights: names no node; write NODE=WEIGHT,NODE=WEIGHT");
    EXPECT_EQ(why_not("a=1,b"), "--weights: 'b' names no weight; write NODE=WEIGHT");
    EXPECT_EQ(why_not("a:4=1"), "--weights: 'a:4' is no name of a node; write NODE=WEIGHT");
    EXPECT_EQ(why_not("=1"), "--weights: '' is no name of a node; write NODE=WEIGHT");
    EXPECT_EQ(why_not("--mca=1"), "--weights: '--mca' is no name of a node; write NODE=WEIGHT");
    for (const char *node : {"ann@a", "fe80::1", "[fe80::1]", "a[1-4]", "+n0", "a*", "a/2"})
        EXPECT_EQ(why_not(fmt::format("{}=1", node)),
                  fmt::format("--weights: '{}' is no name of a node; write NODE=WEIGHT", node));
    EXPECT_EQ(why_not("a=1,a=2"), "--weights: names node a twice");
    EXPECT_EQ(why_not("a=1,a.cluster=2"), "--weights: names node a.cluster twice");
    EXPECT_EQ(why_not("a.cluster=1,a=2"), "--weights: names node a twice");
    for (const char *number : {"0", "-1", "", "1.5", "7x", "1000000001", "99999999999999999999"})
        EXPECT_EQ(why_not(fmt::format("a=1,b={}", number)),
                  fmt::format("--weights: the weight of node b is '{}', and has to be a whole "
                              "number from 1 to 1000000000; leave out nodes that shall have no "
                              "ranks",
                              number));
    EXPECT_EQ(weights_text(weights("192.0.2.1=1,192.0.2.2=1")), "192.0.2.1=1,192.0.2.2=1");
}

TEST(Placement, SharesAreRoundedByTheLargestRemainder)
{
    EXPECT_EQ(*shares_of(weights("a=7,b=3"), 10), Numbers({7, 3}));
    EXPECT_EQ(*shares_of(weights("a=7,b=3,c=6"), 16), Numbers({7, 3, 6}));
    EXPECT_EQ(*shares_of(weights("a=7,b=3,c=6"), 8), Numbers({4, 1, 3})); // 3.5, 1.5, 3: a is first
    EXPECT_EQ(*shares_of(weights("a=1,b=1,c=1"), 8), Numbers({3, 3, 2}));
}

TEST(Placement, ANodeWithoutRanksIsRefused)
{
    const Result<Numbers> found = shares_of(weights("a=7,b=1"), 4);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code(), EINVAL);
    EXPECT_EQ(found.error().text(), "node b gets none of 4 ranks by its weight, 1 of 8; leave it "
                                    "out, or give it more");
}

TEST(Placement, RanksStayWhereTheirImagesAre)
{
    const Placement blocks = place({"a", "a", "a", "a", "a", "b", "b", "b", "b", "b"}, "a=7,b=3");
    EXPECT_EQ(blocks.node_of, Numbers({0, 0, 0, 0, 0, 0, 0, 1, 1, 1}));
    EXPECT_EQ(blocks.moves, 2);
    EXPECT_TRUE(blocks.in_blocks);
    const Placement cyclic = place({"a", "b", "a", "b", "a", "b"}, "a=2,b=1");
    EXPECT_EQ(cyclic.node_of, Numbers({0, 1, 0, 1, 0, 0}));
    EXPECT_EQ(cyclic.moves, 1);
    EXPECT_FALSE(cyclic.in_blocks);
    EXPECT_EQ(weights_by_rank(blocks), "0=7,7=3");
    EXPECT_EQ(weights_by_rank(cyclic), "0=2,1=1");
    const Placement again = place({"a", "b", "a", "b", "a", "b"}, "a=2,b=1", Order::blocks);
    EXPECT_EQ(again.node_of, Numbers({0, 0, 0, 0, 1, 1}));
    EXPECT_EQ(again.moves, 3);
}

TEST(Placement, FewerNodesAndNewOnes)
{
    const Placement fewer = place({"a", "b", "c", "a", "b", "c"}, "a=1,c=1");
    EXPECT_EQ(fewer.node_of, Numbers({0, 0, 1, 0, 1, 1}));
    EXPECT_EQ(fewer.moves, 2);
    const Placement others = place({"a", "b"}, "x=1");
    EXPECT_EQ(others.node_of, Numbers({0, 0}));
    EXPECT_EQ(others.moves, 2);
}

TEST(Placement, NamesWithAndWithoutADomainAreOneNode)
{
    const NodeNames names(weights("n1=1,n2.cluster=1,x.one=1,x.two=1"));
    EXPECT_EQ(names.find("n1"), 0);
    EXPECT_EQ(names.find("n1.cluster"), 0);
    EXPECT_EQ(names.find("n1/2"), 0);
    EXPECT_EQ(names.find("n2"), 1);
    EXPECT_EQ(names.find("n2.other"), NodeNames::none);
    EXPECT_EQ(names.find("x"), NodeNames::none); // there are two
    EXPECT_EQ(names.find("x.two"), 3);
    const NodeNames addresses(weights("192.0.2.1=1"));
    EXPECT_EQ(addresses.find("192.0.2.2"), NodeNames::none);
    EXPECT_EQ(addresses.find("192"), NodeNames::none);
}

// What no other placement with these shares could do better, of random jobs.
TEST(Placement, NeverMovesMoreThanItHasTo)
{
    std::mt19937 random(7);
    for (int round = 0; round < 2000; round++) {
        const size_t nodes = 1 + random() % 6;
        const size_t ranks = 8 + random() % 40;
        std::vector<Weight> now;
        for (size_t i = 0; i < nodes; i++)
            now.push_back({fmt::format("n{}", i), 10 + random() % 10});
        Names before;
        for (size_t i = 0; i < ranks; i++)
            before.push_back(fmt::format("n{}", random() % 8));
        const Result<Placement> found = place_ranks(before, now, Order::any);
        ASSERT_TRUE(found);
        ASSERT_EQ(found->node_of.size(), ranks);
        EXPECT_EQ(std::accumulate(found->shares.begin(), found->shares.end(), size_t(0)), ranks);
        size_t stay = 0;
        for (size_t node = 0; node < nodes; node++) {
            const auto had = static_cast<size_t>(std::ranges::count(before, now[node].node));
            const auto gets = static_cast<size_t>(std::ranges::count(found->node_of, node));
            EXPECT_EQ(gets, found->shares[node]);
            stay += std::min(had, gets);
        }
        EXPECT_EQ(found->moves, ranks - stay);
        const Result<Placement> again = place_ranks(before, now, Order::any);
        EXPECT_EQ(again->node_of, found->node_of);
    }
}
