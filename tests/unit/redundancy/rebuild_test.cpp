// SPDX-License-Identifier: Apache-2.0
//
// Lost nodes: every loss of small sets, unequal and empty files, random sets.
#include "nodes.hpp"

#include "image/little_endian.hpp"
#include "redundancy/member_files.hpp"

#include <bit>
#include <cerrno>

namespace cryo::redundancy {

namespace {

struct Loss {
    std::vector<bool> lost;
    std::set<size_t> members;
};

Loss loss_of(uint32_t which, size_t members)
{
    Loss loss;
    for (size_t i = 0; i < members; i++) {
        loss.lost.push_back((which >> i & 1) != 0);
        if (loss.lost.back())
            loss.members.insert(i);
    }
    return loss;
}

// All that can be made again is, and of the rest nothing is.
void lose_and_rebuild(Nodes &nodes, const Loss &loss)
{
    for (const size_t member : loss.members)
        nodes.lose(member);
    const Result<Rebuilt> done = nodes.rebuild(loss.members);
    if (check_loss(nodes.set().scheme, nodes.set().nodes(), loss.lost)) {
        ASSERT_TRUE(done) << done.error().text();
        EXPECT_TRUE(done->damaged.empty());
        EXPECT_TRUE(done->redundant);
        for (const size_t member : loss.members)
            EXPECT_TRUE(nodes.is_whole(member)) << member;
        return;
    }
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), ENODATA);
    for (const size_t member : loss.members)
        EXPECT_TRUE(nodes.is_empty(member)) << member;
}

void try_all_losses(const std::string &scheme, const Sizes &sizes)
{
    for (uint32_t which = 0; which < 1U << sizes.size(); which++) {
        SCOPED_TRACE(scheme + " " + std::to_string(which));
        Nodes nodes(scheme, sizes);
        ASSERT_TRUE(nodes.encode());
        lose_and_rebuild(nodes, loss_of(which, sizes.size()));
    }
}

TEST(Rebuilding, MakesGoodAllLosses)
{
    const Sizes sizes = {{20000}, {5000, 0, 9000}, {70000}, {4096}};
    for (const char *scheme : {"partner", "xor", "rs:2", "rs:3"})
        try_all_losses(scheme, sizes);
}

TEST(Rebuilding, MakesGoodAllLossesOfPairs)
{
    for (const char *scheme : {"partner", "xor"})
        try_all_losses(scheme, {{20000, 1}, {5000}});
}

TEST(Rebuilding, BringsBackEmptyFilesAndNodes)
{
    for (const char *scheme : {"partner", "xor", "rs:2"}) {
        try_all_losses(scheme, {{}, {}, {}});
        try_all_losses(scheme, {{0}, {0, 0}, {}});
        try_all_losses(scheme, {{0, 12288, 0}, {}, {0}});
        try_all_losses(scheme, {{}, {300000}, {}});
    }
}

TEST(Rebuilding, HoldsForRandomSets)
{
    std::mt19937 random(20);
    for (unsigned round = 0; round < 60; round++) {
        Sizes sizes(2 + random() % 6);
        for (std::vector<size_t> &node : sizes) {
            node.resize(random() % 4);
            for (size_t &size : node)
                size = random() % 3 == 0 ? random() % 3 * 4096 : random() % 60000;
        }
        const size_t losses = 1 + random() % (sizes.size() - 1);
        const std::string scheme = random() % 4 == 0 ? "partner" : "rs:" + std::to_string(losses);
        SCOPED_TRACE("round " + std::to_string(round) + ", " + scheme);
        Nodes nodes(scheme, sizes, random() % 2 == 0 ? smallest_block : 2 * smallest_block, round);
        ASSERT_TRUE(nodes.encode());
        uint32_t which = 0;
        for (size_t i = 0; i < losses; i++)
            which |= 1U << random() % sizes.size();
        lose_and_rebuild(nodes, loss_of(which, sizes.size()));
    }
}

TEST(Rebuilding, MayLeaveLostMembersOut)
{
    Nodes nodes("rs:2", {{20000}, {5000}, {7000}, {1}});
    ASSERT_TRUE(nodes.encode());
    nodes.lose(0);
    nodes.lose(2);
    ASSERT_TRUE(nodes.rebuild({2}));
    EXPECT_TRUE(nodes.is_whole(2));
    EXPECT_TRUE(nodes.is_empty(0));
}

TEST(Rebuilding, MakesOnlyWhatIsLost)
{
    Nodes nodes("xor", {{20000}, {5000}, {7000}});
    ASSERT_TRUE(nodes.encode());
    const Result<Rebuilt> there = nodes.rebuild({1});
    ASSERT_FALSE(there);
    EXPECT_EQ(there.error().code(), EINVAL);
    EXPECT_TRUE(nodes.is_whole(1));
    const Result<Rebuilt> unknown = rebuild({}, {}, Trust());
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code(), ENODATA);
}

TEST(Rebuilding, ReplacesNoFile)
{
    Nodes nodes("xor", {{20000, 100}, {5000}, {7000}});
    ASSERT_TRUE(nodes.encode());
    nodes.lose(0);
    std::filesystem::create_directory(nodes.file(0, 1).parent_path());
    std::ofstream(nodes.file(0, 1)) << "mine";
    const Result<Rebuilt> done = nodes.rebuild({0});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), EEXIST);
    EXPECT_EQ(Nodes::read(nodes.file(0, 1)), "mine");
    EXPECT_FALSE(std::filesystem::exists(nodes.file(0)));
    EXPECT_FALSE(std::filesystem::exists(nodes.parity(0)));
}

// In a directory that others may write, they could exchange an image, which is a program.
TEST(Rebuilding, WritesIntoNoDirectoryOfOthers)
{
    using std::filesystem::perms;
    Nodes nodes("xor", {{20000}, {5000}, {7000}});
    ASSERT_TRUE(nodes.encode());
    nodes.lose(0);
    const std::filesystem::path parent = nodes.file(0).parent_path();
    for (const std::filesystem::path &open : {nodes.at(0), parent}) {
        std::filesystem::create_directory(parent);
        std::filesystem::permissions(open, perms::all);
        const Result<Rebuilt> done = nodes.rebuild({0});
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code(), EACCES);
        EXPECT_TRUE(done.error().text().starts_with(open.string() + ": ")) << done.error().text();
        EXPECT_TRUE(nodes.is_empty(0));
        std::filesystem::permissions(open, perms::owner_all);
    }
    ASSERT_TRUE(nodes.rebuild({0}));
    EXPECT_TRUE(nodes.is_whole(0));
}

// Nor into one that is only led through: another one could be put in the place of what is behind
// it.
TEST(Rebuilding, WritesThroughNoDirectoryOfOthers)
{
    using std::filesystem::perms;
    Nodes nodes("xor", {{20000}, {5000}, {7000}});
    SetFile &file = nodes.set().members[0].files[0];
    const std::filesystem::path before = nodes.file(0);
    file.name = "outer/inner/image";
    const std::filesystem::path inner = nodes.file(0).parent_path();
    std::filesystem::create_directories(inner);
    std::filesystem::rename(before, nodes.file(0));
    ASSERT_TRUE(nodes.encode());
    nodes.lose(0);
    std::filesystem::create_directories(inner);
    std::filesystem::permissions(inner.parent_path(), perms::all);
    const Result<Rebuilt> done = nodes.rebuild({0});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), EACCES);
    EXPECT_TRUE(done.error().text().starts_with(inner.parent_path().string() + ": "))
        << done.error().text();
    EXPECT_TRUE(nodes.is_empty(0));
    std::filesystem::permissions(inner.parent_path(), perms::owner_all);
    ASSERT_TRUE(nodes.rebuild({0}));
    EXPECT_TRUE(nodes.is_whole(0));
}

// Another user may put another directory there before the names are given.
TEST(Rebuilding, GivesNoNameInADirectoryOfOthers)
{
    using std::filesystem::perms;
    Nodes nodes("xor", {{20000}, {5000}});
    const SetMember &member = nodes.set().members[0];
    const std::string bytes = Nodes::read(nodes.file(0));
    const std::filesystem::path parent = nodes.file(0).parent_path();
    std::filesystem::remove(nodes.file(0));
    const Directory directory = nodes.open(0);
    MemberWriter writer(directory, member);
    ASSERT_TRUE(
        writer.next(image::Bytes(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size())));
    std::filesystem::permissions(parent, perms::all);
    const Result<void> done = writer.commit();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), EACCES);
    EXPECT_FALSE(std::filesystem::exists(nodes.file(0)));
}

// A rebuild that was killed is no obstacle to the next.
TEST(Rebuilding, BeginsAnew)
{
    Nodes nodes("xor", {{20000}, {5000}, {7000}});
    ASSERT_TRUE(nodes.encode());
    nodes.lose(0);
    const std::filesystem::path parent = nodes.file(0).parent_path();
    std::filesystem::create_directory(parent);
    std::ofstream(parent / ("." + nodes.file(0).filename().string() + ".tmp")) << "half of it";
    ASSERT_TRUE(nodes.rebuild({0}));
    EXPECT_TRUE(nodes.is_whole(0));
}

TEST(Rebuilding, MixesNoSets)
{
    const Sizes sizes = {{20000}, {5000}, {7000}};
    Nodes one("xor", sizes, smallest_block, 1);
    ASSERT_TRUE(one.encode());
    Nodes other("xor", sizes, smallest_block, 2);
    other.set().id = "another set";
    ASSERT_TRUE(other.encode());
    const Directory first = one.open(0);
    const Directory second = other.open(1);
    const Result<Rebuilt> mixed = rebuild({&first, &second}, {}, Trust());
    ASSERT_FALSE(mixed);
    EXPECT_EQ(mixed.error().text(),
              other.parity(1).string() +
                  ": is of another set than the others (of another set, not set)");
    const Result<Rebuilt> twice = rebuild({&first, &first}, {}, Trust());
    ASSERT_FALSE(twice);
    EXPECT_EQ(twice.error().code(), EEXIST);
}

// Both sets name the same files, with the same id: only what was encoded differs.
TEST(Rebuilding, MixesNoParityOfOtherData)
{
    const Sizes sizes = {{20000}, {20000}, {20000}, {20000}};
    Nodes one("rs:2", sizes, smallest_block, 1);
    Nodes other("rs:2", sizes, smallest_block, 2);
    ASSERT_TRUE(one.encode());
    ASSERT_TRUE(other.encode());
    const std::string theirs = Nodes::read(other.parity(1));
    const std::string ours = Nodes::read(one.parity(1));
    ASSERT_EQ(theirs.size(), ours.size());
    std::filesystem::remove(one.parity(1));
    const auto *length = reinterpret_cast<const uint8_t *>(ours.data() + 8);
    const size_t head = 32 + image::load_le<uint32_t>(length);
    std::ofstream(one.parity(1), std::ios::binary) << ours.substr(0, head) << theirs.substr(head);
    one.lose(0);
    const Result<Rebuilt> done = one.rebuild({0});
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().text().find("was made of other data"), std::string::npos)
        << done.error().text();
    EXPECT_TRUE(one.is_empty(0));
}

} // namespace

} // namespace cryo::redundancy
