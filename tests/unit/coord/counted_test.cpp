// SPDX-License-Identifier: Apache-2.0
//
// Snapshots of so many ranks that their metadata count them.
#include "coord/snapshot_text.hpp"
#include "store.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace cryo::coord {
namespace {

using Seqs = std::vector<int>;

// Of many ranks the metadata have no lines: each has its own beside its image.
Result<void> save_counted(const Store &store, uint32_t ranks)
{
    Result<SnapshotWriter> writer = store.begin();
    if (!writer)
        return writer.error();
    for (SnapshotImage &image : Store::put_images(*writer, ranks)) {
        image.is_counted = true;
        image.node = fmt::format("n{}", image.rank);
        const auto directory =
            Directory::open(writer->directory() + "/" + rank_directory(image.rank));
        if (Result<void> done = describe_image(*directory, image); !done)
            return done;
    }
    return writer->commit_counted(ranks, 7 * ranks);
}

TEST(CountedSnapshots, RanksOfALargeOneAreCounted)
{
    const Store store;
    ASSERT_TRUE(save_counted(store, 3));
    const std::string text = store.read(std::string(reference) + "/" + meta);
    EXPECT_TRUE(text.starts_with("#\n# Cryo Format: 4\n")) << text;
    EXPECT_NE(text.find("\n# Cryo Ranks: 3\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("# Process"), std::string::npos) << text;
    ASSERT_TRUE(store.save()); // two ranks, which are listed
    ASSERT_TRUE(save_counted(store, 4));
    EXPECT_EQ(store.finished(), (Seqs{0, 1, 2}));
    const Result<SnapshotStore> all = SnapshotStore::open(store.top());
    ASSERT_TRUE(all);
    EXPECT_EQ(all->find(1)->images.size(), 2U);
    ASSERT_EQ(all->find(0)->images.size(), 3U);
    const SnapshotImage *image = all->find(0)->image_of(2);
    ASSERT_NE(image, nullptr);
    EXPECT_EQ(image->pid, 502);
    EXPECT_EQ(image->node, "n2");
    EXPECT_EQ(image->file, image_name(502));
    EXPECT_EQ(image->bytes, 7U); // "image 0"
    EXPECT_EQ(all->find(0)->bytes(), 21U);
    const Result<SnapshotStore> listed = SnapshotStore::open(store.top(), Depth::listed);
    ASSERT_TRUE(listed);
    EXPECT_EQ(listed->find(0)->images.size(), 0U);
    EXPECT_EQ(listed->find(0)->ranks(), 3U);
    EXPECT_EQ(listed->find(0)->bytes(), 21U);
    EXPECT_EQ(listed->find(1)->ranks(), 2U);
    // What is read in any way is written again as it was.
    const std::string now = store.read(std::string(reference) + "/" + meta);
    EXPECT_EQ(metadata_text(all->snapshots()), now);
    EXPECT_EQ(metadata_text(*parse_metadata(now, Depth::heads)), now);
}

TEST(CountedSnapshots, CountedOnesAreRemovedAsOthers)
{
    const Store store;
    ASSERT_TRUE(save_counted(store, 3));
    ASSERT_TRUE(save_counted(store, 3));
    ASSERT_TRUE(store.save(1));
    EXPECT_EQ(store.finished(), (Seqs{2}));
    EXPECT_TRUE(store.read(std::string(reference) + "/" + meta)
                    .starts_with("#\n# Cryo Format: 2\n")); // as all releases read it
    EXPECT_FALSE(std::filesystem::exists(store.top() / "0"));
}

TEST(CountedSnapshots, WriterKnowsRanksThatAreCounted)
{
    const Store store;
    ASSERT_TRUE(save_counted(store, 3));
    Result<SnapshotWriter> writer = store.begin();
    ASSERT_TRUE(writer);
    EXPECT_TRUE(writer->has_image(0, 2));
    EXPECT_FALSE(writer->has_image(0, 3));
}

TEST(CountedSnapshots, ACountedRankThatIsMissingIsNamed)
{
    const Store store;
    ASSERT_TRUE(save_counted(store, 3));
    ASSERT_TRUE(store.save());
    const auto rank = store.top() / "0" / rank_directory(1);
    store.write(std::string(reference) + "/0/" + rank_directory(1) + "/" + local_metadata_name,
                "# CONTEXT: ../../elsewhere\n");
    const auto refusal = [&] {
        const Result<SnapshotStore> all = SnapshotStore::open(store.top());
        EXPECT_TRUE(all && all->check(*all->find(1), Trust()));
        const Result<void> good = all->check(*all->find(0), Trust());
        return good ? "none" : good.error().text();
    };
    EXPECT_NE(refusal().find("the image of rank 1"), std::string::npos) << refusal();
    std::filesystem::remove_all(rank);
    EXPECT_NE(refusal().find("the image of rank 1"), std::string::npos) << refusal();
    std::map<int, Snapshot> too_many;
    too_many[0] = {.seq = 0, .finished = true, .mark = "m", .counted = 1U << 21};
    EXPECT_FALSE(parse_metadata(metadata_text(too_many)));
}

// Smaller jobs have the files that they have always had.
TEST(CountedSnapshots, MetadataOfAListedRankDoNotNameItsNode)
{
    SnapshotImage image = {.rank = 1, .pid = 501, .node = "n1", .file = image_name(501)};
    EXPECT_EQ(local_metadata_text(image).find("Cryo Node"), std::string::npos);
    image.is_counted = true;
    EXPECT_NE(local_metadata_text(image).find("\n# Cryo Node: n1\n"), std::string::npos);
}

} // namespace
} // namespace cryo::coord
