// SPDX-License-Identifier: Apache-2.0
//
// Snapshots of so many ranks that their metadata count them.
#include "coord/snapshot_text.hpp"
#include "store.hpp"

#include <filesystem>
#include <gtest/gtest.h>

namespace cryo::coord {
namespace {

using Seqs = std::vector<int>;

TEST(CountedSnapshots, RanksOfALargeOneAreCounted)
{
    const Store store;
    ASSERT_TRUE(store.save_counted(3));
    const std::string text = store.read(std::string(reference) + "/" + meta);
    EXPECT_TRUE(text.starts_with("#\n# Cryo Format: 4\n")) << text;
    EXPECT_NE(text.find("\n# Cryo Ranks: 3\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("# Process"), std::string::npos) << text;
    ASSERT_TRUE(store.save()); // two ranks, which are listed
    ASSERT_TRUE(store.save_counted(4));
    EXPECT_EQ(store.finished(), (Seqs{0, 1, 2}));
    const Result<SnapshotStore> all = SnapshotStore::open(store.top());
    ASSERT_TRUE(all);
    EXPECT_EQ(all->find(0)->ranks(), 3U);
    EXPECT_EQ(all->find(0)->bytes(), 21U);
    EXPECT_EQ(all->find(1)->ranks(), 2U);
    EXPECT_EQ(all->with_ranks(*all->find(1)).images.size(), 2U);
    const Snapshot whole = all->with_ranks(*all->find(0));
    ASSERT_EQ(whole.images.size(), 3U);
    const SnapshotImage *image = whole.image_of(2);
    ASSERT_NE(image, nullptr);
    EXPECT_EQ(image->pid, 502);
    EXPECT_EQ(image->node, "n2");
    EXPECT_EQ(image->file, image_name(502));
    EXPECT_EQ(image->bytes, 7U); // "image 0"
    EXPECT_EQ(whole.bytes(), 21U);
    EXPECT_EQ(all->with_ranks(whole).images.size(), 3U); // read once more
    // What is read in any way is written again as it was.
    const std::string now = store.read(std::string(reference) + "/" + meta);
    EXPECT_EQ(metadata_text(all->snapshots()), now);
    EXPECT_EQ(metadata_text({{0, whole}, {1, *all->find(1)}, {2, *all->find(2)}}), now);
    EXPECT_EQ(metadata_text(*parse_metadata(now, Depth::heads)), now);
}

// A directory of many of them is looked at for one, or for none.
TEST(CountedSnapshots, RanksAreReadWhenSomebodyAsks)
{
    const Store store;
    ASSERT_TRUE(store.save_counted(3));
    ASSERT_TRUE(store.save_counted(3));
    const Result<SnapshotStore> all = SnapshotStore::open(store.top());
    ASSERT_TRUE(all);
    for (const auto &[seq, snapshot] : all->snapshots())
        EXPECT_TRUE(snapshot.images.empty());
    EXPECT_TRUE(all->check(*all->find(0), Trust()));
    store.write(Store::text_of(2), "# PID: 7\n# CONTEXT: x\n# Cryo Node: later\n");
    EXPECT_EQ(all->with_ranks(*all->find(0)).images[2].node, "later");
    EXPECT_FALSE(all->check(*all->find(0), Trust()));
    EXPECT_TRUE(all->check(*all->find(1), Trust()));
}

TEST(CountedSnapshots, DeltasNeedTheirRanks)
{
    const Store store;
    ASSERT_TRUE(store.save_counted(3));
    {
        Result<SnapshotWriter> writer = store.begin();
        ASSERT_TRUE(writer);
        std::vector<SnapshotImage> images = Store::put_images(*writer, 3);
        for (SnapshotImage &image : images)
            image.needs = {0};
        ASSERT_TRUE(writer->commit(std::move(images)));
        ASSERT_TRUE(writer->keep(1));
    }
    EXPECT_EQ(store.finished(), (Seqs{0, 1}));
    std::filesystem::remove(store.at(Store::text_of(1)));
    const Result<SnapshotStore> all = SnapshotStore::open(store.top());
    ASSERT_TRUE(all);
    const Result<void> good = all->check(*all->find(1), Trust());
    ASSERT_FALSE(good);
    EXPECT_NE(
        good.error().text().find("snapshot 1 has deltas that need snapshot 0: the image of rank 1"),
        std::string::npos)
        << good.error().text();
    ASSERT_TRUE(store.save(1));
    EXPECT_EQ(store.finished(), (Seqs{2}));
    EXPECT_FALSE(std::filesystem::exists(store.top() / "0"));
}

TEST(CountedSnapshots, CountedOnesAreRemovedAsOthers)
{
    const Store store;
    ASSERT_TRUE(store.save_counted(3));
    ASSERT_TRUE(store.save_counted(3));
    ASSERT_TRUE(store.save(1));
    EXPECT_EQ(store.finished(), (Seqs{2}));
    EXPECT_TRUE(store.read(std::string(reference) + "/" + meta)
                    .starts_with("#\n# Cryo Format: 2\n")); // as all releases read it
    EXPECT_FALSE(std::filesystem::exists(store.top() / "0"));
}

TEST(CountedSnapshots, RanksLieTogetherInGroups)
{
    constexpr uint32_t ranks = image::ranks_in_group + 1;
    const bool has_memory = std::filesystem::is_directory("/dev/shm"); // a thousand are synced
    const Store store(has_memory ? "/dev/shm" : std::filesystem::temp_directory_path().string());
    ASSERT_TRUE(store.save_counted(ranks));
    const Result<SnapshotStore> all = SnapshotStore::open(store.top());
    ASSERT_TRUE(all);
    const Snapshot whole = all->with_ranks(*all->find(0));
    ASSERT_EQ(whole.images.size(), ranks);
    EXPECT_TRUE(all->check(whole, Trust()));
    const std::string top = store.top().string();
    EXPECT_EQ(all->image_path(whole, whole.images[0]),
              top + "/0/ranks_0/opal_snapshot_0.ckpt/" + image_name(500));
    EXPECT_EQ(all->image_path(whole, whole.images[ranks - 1]),
              top + "/0/ranks_1/opal_snapshot_1024.ckpt/" + image_name(1524));
    const std::string notes = std::string(reference) + "/0/ranks_1/notes";
    store.write(notes, "mine");
    const Result<void> saved = store.save(1);
    ASSERT_FALSE(saved);
    EXPECT_NE(saved.error().text().find("/0/ranks_1/notes: was not made by Cryo"),
              std::string::npos)
        << saved.error().text();
    EXPECT_TRUE(std::filesystem::exists(store.at(Store::text_of(0))));
    std::filesystem::remove(store.at(notes));
    ASSERT_TRUE(store.save(1));
    EXPECT_FALSE(std::filesystem::exists(store.top() / "0"));
}

// As they were made at first.
TEST(CountedSnapshots, DirectoriesOfRanksMayLieAlone)
{
    const Store store;
    ASSERT_TRUE(store.save_counted(3, Layout::alone));
    const std::string text = Store::text_of(2, Layout::alone);
    ASSERT_TRUE(std::filesystem::exists(store.at(text)));
    EXPECT_EQ(store.finished(), (Seqs{0}));
    const Result<SnapshotStore> all = SnapshotStore::open(store.top());
    ASSERT_TRUE(all);
    const Snapshot whole = all->with_ranks(*all->find(0));
    ASSERT_EQ(whole.images.size(), 3U);
    EXPECT_EQ(all->image_path(whole, whole.images[2]),
              (store.at(text).parent_path() / image_name(502)).string());
    ASSERT_TRUE(store.save_counted(3));
    std::filesystem::remove(store.at(text));
    EXPECT_EQ(store.finished(), (Seqs{1}));
    ASSERT_TRUE(store.save(1));
    EXPECT_FALSE(std::filesystem::exists(store.top() / "0"));
}

TEST(CountedSnapshots, NamesOfRanksDirectories)
{
    EXPECT_EQ(rank_of("opal_snapshot_0.ckpt"), 0U);
    EXPECT_EQ(rank_of(rank_directory(100'000)), 100'000U);
    for (const char *name : {"", ".", "opal_snapshot_.ckpt", "opal_snapshot_01.ckpt", "ranks_0",
                             "opal_snapshot_1", ".opal_snapshot_1.ckpt", "opal_snapshot_-1.ckpt",
                             "opal_snapshot_99999999999.ckpt", "opal_snapshot_1.ckpt/.."})
        EXPECT_FALSE(rank_of(name)) << name;
}

TEST(CountedSnapshots, WriterKnowsRanksThatAreCounted)
{
    const Store store;
    ASSERT_TRUE(store.save_counted(3));
    Result<SnapshotWriter> writer = store.begin();
    ASSERT_TRUE(writer);
    EXPECT_TRUE(writer->has_image(0, 2));
    EXPECT_FALSE(writer->has_image(0, 3));
}

TEST(CountedSnapshots, ACountedRankThatIsMissingIsNamed)
{
    const Store store;
    ASSERT_TRUE(store.save_counted(3));
    ASSERT_TRUE(store.save());
    const auto rank = store.at(Store::text_of(1)).parent_path();
    store.write(Store::text_of(1), "# CONTEXT: ../../elsewhere\n");
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
