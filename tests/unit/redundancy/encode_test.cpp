// SPDX-License-Identifier: Apache-2.0
//
// Encoding: how much parity there is, and that nothing stays of what fails.
#include "nodes.hpp"

#include <cerrno>

namespace cryo::redundancy {

namespace {

TEST(Encoding, TakesTheSpaceThatItsSchemeSays)
{
    const size_t image = 120 * size_t(smallest_block);
    const std::pair<const char *, double> expected[] = {
        {"partner", 1}, {"xor", 1.0 / 3}, {"rs:2", 1}};
    for (const auto &[scheme, share] : expected) {
        Nodes nodes(scheme, {{image}, {image / 2, image / 2}, {image}, {image}});
        ASSERT_TRUE(nodes.encode());
        for (size_t i = 0; i < nodes.count(); i++) {
            const auto bytes = static_cast<double>(std::filesystem::file_size(nodes.parity(i)));
            EXPECT_GE(bytes, share * double(image)) << scheme;
            EXPECT_LE(bytes, share * double(image) * 1.03 + 4096) << scheme; // sums, description
        }
    }
}

TEST(Encoding, ReadsWhatWasDescribed)
{
    Nodes nodes("xor", {{9000, 5000}, {100}, {}});
    Nodes::flip(nodes.file(0, 1), 4999);
    const Result<void> done = nodes.encode();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), EBADMSG);
    EXPECT_EQ(done.error().text(),
              nodes.file(0, 1).string() + ": is not what was saved (checksum)");
    for (size_t i = 0; i < nodes.count(); i++) {
        EXPECT_FALSE(std::filesystem::exists(nodes.parity(i)));
        EXPECT_FALSE(std::filesystem::exists(nodes.at(i) / ".parity.tmp"));
    }
}

TEST(Encoding, NamesFilesThatAreMissingOrOfAnotherSize)
{
    Nodes nodes("xor", {{9000}, {100}});
    Nodes::cut(nodes.file(0), 8999);
    const Result<void> small = nodes.encode();
    ASSERT_FALSE(small);
    EXPECT_EQ(small.error().text(),
              nodes.file(0).string() + ": is not what was saved (8999 of 9000 bytes)");
    Nodes::cut(nodes.file(0), 9001);
    EXPECT_FALSE(nodes.encode());
    std::filesystem::remove(nodes.file(0));
    const Result<void> missing = nodes.encode();
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code(), ENOENT);
}

TEST(Encoding, FollowsNoLink)
{
    Nodes nodes("xor", {{9000}, {100}});
    std::filesystem::rename(nodes.file(0), nodes.at(0) / "elsewhere");
    std::filesystem::create_symlink(nodes.at(0) / "elsewhere", nodes.file(0));
    EXPECT_FALSE(nodes.encode());
    std::filesystem::remove(nodes.file(0));
    std::filesystem::rename(nodes.at(0) / "elsewhere", nodes.file(0));
    std::filesystem::create_directory(nodes.at(1) / "other");
    std::filesystem::rename(nodes.file(0).parent_path(), nodes.at(1) / "other" / "rank");
    std::filesystem::create_directory_symlink(nodes.at(1) / "other" / "rank",
                                              nodes.file(0).parent_path());
    EXPECT_FALSE(nodes.encode());
}

TEST(Encoding, ReplacesNoParity)
{
    Nodes nodes("xor", {{9000}, {100}, {7}});
    std::ofstream(nodes.parity(1)) << "another set's";
    const Result<void> done = nodes.encode();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), EEXIST);
    EXPECT_EQ(Nodes::read(nodes.parity(1)), "another set's");
    EXPECT_FALSE(std::filesystem::exists(nodes.parity(0)));
    EXPECT_FALSE(std::filesystem::exists(nodes.parity(2)));
}

// An encoding that was killed is no obstacle to the next.
TEST(Encoding, BeginsAnew)
{
    Nodes nodes("rs:2", {{9000}, {100}, {7}});
    std::ofstream(nodes.at(1) / ".parity.tmp") << "half of it";
    ASSERT_TRUE(nodes.encode());
    EXPECT_FALSE(std::filesystem::exists(nodes.at(1) / ".parity.tmp"));
    nodes.lose(1);
    ASSERT_TRUE(nodes.rebuild({1}));
    EXPECT_TRUE(nodes.is_whole(1));
}

} // namespace

} // namespace cryo::redundancy
