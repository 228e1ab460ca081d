// SPDX-License-Identifier: Apache-2.0
//
// Bits that rot and files that lack their end, on nodes that are there: named, never used, and made
// good where the scheme can.
#include "nodes.hpp"

#include <algorithm>
#include <cerrno>

namespace cryo::redundancy {

namespace {

const Sizes sizes = {{30000}, {15000, 15000}, {28000}, {9000}};

bool names(const Rebuilt &done, const std::filesystem::path &path)
{
    return std::ranges::any_of(
        done.damaged, [&](const Error &error) { return error.text().starts_with(path.string()); });
}

TEST(Damage, IsFoundByACheck)
{
    Nodes nodes("xor", sizes);
    ASSERT_TRUE(nodes.encode());
    const Result<Rebuilt> sound = nodes.check();
    ASSERT_TRUE(sound);
    EXPECT_TRUE(sound->damaged.empty());
    Nodes::flip(nodes.file(1, 1), 14999);
    Nodes::flip(nodes.parity(3), std::filesystem::file_size(nodes.parity(3)) - 1);
    const Result<Rebuilt> done = nodes.check();
    ASSERT_TRUE(done);
    EXPECT_EQ(done->damaged.size(), 2U);
    EXPECT_TRUE(names(*done, nodes.file(1, 1)));
    EXPECT_TRUE(names(*done, nodes.parity(3)));
}

// With xor, a damaged block is one too many where a node is lost as well.
TEST(Damage, IsNotUsed)
{
    Nodes nodes("xor", sizes);
    ASSERT_TRUE(nodes.encode());
    Nodes::flip(nodes.file(2), smallest_block + 100); // in a row with a block of node 0
    nodes.lose(0);
    const Result<Rebuilt> done = nodes.rebuild({0});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), ENODATA);
    EXPECT_NE(done.error().text().find("n0, n2"), std::string::npos) << done.error().text();
    EXPECT_TRUE(nodes.is_empty(0));
}

// The row with the damage is one whose parity the lost node kept: nobody else has sums of its data.
TEST(Damage, BecomesNoParity)
{
    Nodes nodes("xor", sizes);
    ASSERT_TRUE(nodes.encode());
    Nodes::flip(nodes.file(1), 1); // row 0, whose parity member 0 has
    nodes.lose(0);
    const Result<Rebuilt> done = nodes.rebuild({0});
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_TRUE(names(*done, nodes.file(1)));
    EXPECT_FALSE(done->redundant);
    EXPECT_FALSE(std::filesystem::exists(nodes.parity(0)));
    EXPECT_TRUE(std::filesystem::exists(nodes.file(0)));
}

TEST(Damage, IsMadeGoodByAnotherParity)
{
    Nodes nodes("rs:2", sizes);
    ASSERT_TRUE(nodes.encode());
    Nodes::flip(nodes.file(2), 27999);
    Nodes::cut(nodes.file(1), 14000);
    nodes.lose(0);
    const Result<Rebuilt> done = nodes.rebuild({0});
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_TRUE(names(*done, nodes.file(2)));
    EXPECT_TRUE(names(*done, nodes.file(1)));
    EXPECT_TRUE(done->redundant);
    EXPECT_TRUE(nodes.is_whole(0));
}

// The damaged node is left out, and so made again.
TEST(Damage, CanBeRepaired)
{
    Nodes nodes("xor", sizes);
    ASSERT_TRUE(nodes.encode());
    Nodes::flip(nodes.file(2), 5);
    nodes.lose(2);
    ASSERT_TRUE(nodes.rebuild({2}));
    EXPECT_TRUE(nodes.is_whole(2));
}

// Wherever a bit of a file or of parity rots: what comes back is right, or there is an error that
// says why. The damage is always named.
TEST(Damage, OfAnyBitIsNamedAndNeverUsed)
{
    std::mt19937 random(31);
    int made = 0;
    for (unsigned round = 0; round < 150; round++) {
        const std::string scheme = round % 3 == 0 ? "xor" : round % 3 == 1 ? "partner" : "rs:2";
        SCOPED_TRACE("round " + std::to_string(round) + ", " + scheme);
        Nodes nodes(scheme, sizes, smallest_block, round);
        ASSERT_TRUE(nodes.encode());
        const size_t rotten = 1 + random() % 3;
        const std::filesystem::path path =
            random() % 2 == 0 ? nodes.parity(rotten) : nodes.file(rotten);
        const uint64_t size = std::filesystem::file_size(path);
        if (random() % 3 == 0)
            Nodes::cut(path, random() % size);
        else
            Nodes::flip(path, random() % size);
        nodes.lose(0);
        const Result<Rebuilt> done = nodes.rebuild({0});
        if (!done) {
            EXPECT_NE(scheme, "rs:2") << done.error().text();
            EXPECT_EQ(done.error().code(), ENODATA) << done.error().text();
            EXPECT_NE(done.error().text().find("n" + std::to_string(rotten)), std::string::npos)
                << done.error().text();
            EXPECT_TRUE(nodes.is_empty(0));
            continue;
        }
        made++;
        EXPECT_TRUE(names(*done, path));
        if (!done->redundant) {
            EXPECT_FALSE(std::filesystem::exists(nodes.parity(0)));
            EXPECT_NE(scheme, "rs:2");
            continue;
        }
        EXPECT_TRUE(nodes.is_whole(0));
    }
    EXPECT_GT(made, 50);
}

TEST(Damage, OfADescriptionLosesTheNode)
{
    Nodes nodes("xor", sizes);
    ASSERT_TRUE(nodes.encode());
    Nodes::flip(nodes.parity(1), 40);
    const Result<Rebuilt> checked = nodes.check();
    ASSERT_TRUE(checked);
    EXPECT_TRUE(names(*checked, nodes.parity(1)));
    nodes.lose(0);
    const Result<Rebuilt> done = nodes.rebuild({0});
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().text().find(nodes.parity(1).string()), std::string::npos);
}

TEST(Damage, MoreThanDescribedIsNamed)
{
    Nodes nodes("xor", sizes);
    ASSERT_TRUE(nodes.encode());
    Nodes::cut(nodes.parity(2), std::filesystem::file_size(nodes.parity(2)) + 1);
    Nodes::cut(nodes.file(3), 9001);
    const Result<Rebuilt> done = nodes.check();
    ASSERT_TRUE(done);
    EXPECT_EQ(done->damaged.size(), 2U);
    EXPECT_TRUE(names(*done, nodes.parity(2)));
    EXPECT_TRUE(names(*done, nodes.file(3)));
}

} // namespace

} // namespace cryo::redundancy
