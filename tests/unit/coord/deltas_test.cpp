// SPDX-License-Identifier: Apache-2.0
// Snapshots whose images are deltas: on what new ones may be based, what stays for others, and what
// is missing.
#include "coord/snapshot_text.hpp"
#include "store.hpp"

namespace cryo::coord {

namespace {

namespace fs = std::filesystem;

using Seqs = std::vector<int>;

// The images of both ranks need those of these snapshots.
Result<void> save(const Store &store, const std::vector<int> &needs, unsigned keep = 0,
                  const std::string &job = "412-0")
{
    Result<SnapshotWriter> writer = store.begin(reference, job);
    if (!writer)
        return writer.error();
    std::vector<SnapshotImage> images = Store::put_images(*writer);
    for (SnapshotImage &image : images)
        image.needs = needs;
    if (Result<void> done = writer->commit(images); !done)
        return done;
    return keep > 0 ? writer->keep(keep) : Result<void>();
}

std::string check(const Store &store, int seq)
{
    const Result<SnapshotStore> all = SnapshotStore::open(store.top());
    const Result<void> good = all->check(*all->find(seq), Trust());
    return good ? "" : good.error().text();
}

std::string metadata(const Store &store)
{
    return store.read(std::string(reference) + "/" + meta);
}

TEST(Deltas, WhatOthersNeedStays)
{
    const Store store;
    ASSERT_TRUE(save(store, {}));
    ASSERT_TRUE(save(store, {0}));
    ASSERT_TRUE(save(store, {1, 0}, 1));
    EXPECT_EQ(store.finished(), (Seqs{0, 1, 2}));
    ASSERT_TRUE(save(store, {0}, 1)); // of the first one alone
    EXPECT_EQ(store.finished(), (Seqs{0, 3}));
    ASSERT_TRUE(save(store, {}, 2));
    EXPECT_EQ(store.finished(), (Seqs{0, 3, 4}));
    ASSERT_TRUE(save(store, {4}, 1));
    EXPECT_EQ(store.finished(), (Seqs{4, 5}));
    EXPECT_FALSE(fs::exists(store.top() / "0"));
    EXPECT_FALSE(fs::exists(store.top() / "3"));
}

// Also for snapshots of others in the same directory, which are no job's to remove.
TEST(Deltas, WhatOtherJobsNeedStays)
{
    const Store store;
    ASSERT_TRUE(save(store, {}));
    ASSERT_TRUE(save(store, {0}, 0, "500-0"));
    ASSERT_TRUE(save(store, {}, 1));
    EXPECT_EQ(store.finished(), (Seqs{0, 1, 2}));
}

TEST(Deltas, TheNewestFinishedOneOfTheJobMayBeABase)
{
    const Store store;
    const auto previous = [&](const std::string &job) {
        const Result<SnapshotWriter> writer = store.begin(reference, job);
        return writer->previous() != nullptr ? writer->previous()->seq : -1;
    };
    EXPECT_EQ(previous("412-0"), -1);
    ASSERT_TRUE(save(store, {}));
    ASSERT_TRUE(save(store, {}));
    ASSERT_TRUE(save(store, {}, 0, "500-0"));
    EXPECT_EQ(previous("412-0"), 1);
    EXPECT_EQ(previous("500-0"), 2);
    EXPECT_EQ(previous("600-0"), -1);
    { // not one that is not committed
        const Result<SnapshotWriter> writer = store.begin();
        ASSERT_TRUE(writer);
        Store::put_images(*writer);
        EXPECT_EQ(writer->previous()->seq, 1);
    }
    EXPECT_EQ(previous("412-0"), 1);
}

TEST(Deltas, WhatIsMissingIsNamed)
{
    const Store store;
    for (const std::vector<int> &needs : {Seqs{}, Seqs{0}, Seqs{1, 0}, Seqs{}})
        ASSERT_TRUE(save(store, needs));
    EXPECT_EQ(check(store, 2), "");
    const fs::path image = store.top() / "0" / rank_directory(1) / image_name(501);
    fs::rename(image, store.at("away"));
    const std::string said = check(store, 2);
    EXPECT_NE(said.find("snapshot 2 has deltas that need snapshot 0: the image of rank 1"),
              std::string::npos)
        << said;
    EXPECT_NE(said.find(image), std::string::npos) << said;
    EXPECT_NE(said.find("--seq"), std::string::npos) << said;
    EXPECT_NE(check(store, 1), "");
    EXPECT_EQ(check(store, 3), "");
    store.write(fs::relative(image, store.base()), "image 0, of another length");
    EXPECT_NE(check(store, 2).find("bytes"), std::string::npos);
    fs::rename(store.at("away"), image);
    EXPECT_EQ(check(store, 2), "");
    {
        Result<SnapshotWriter> writer = SnapshotWriter::open(store.top());
        ASSERT_TRUE(writer);
        ASSERT_TRUE(writer->abandon(0));
    }
    EXPECT_NE(check(store, 2).find("lists no image of rank 0"), std::string::npos)
        << check(store, 2);
}

// Releases that do not know of deltas would remove what is needed.
TEST(Deltas, OlderReleasesRefuseTheMetadata)
{
    const Store store;
    ASSERT_TRUE(save(store, {}));
    EXPECT_TRUE(metadata(store).starts_with("#\n# Cryo Format: 2\n"));
    ASSERT_TRUE(save(store, {0}));
    EXPECT_TRUE(metadata(store).starts_with("#\n# Cryo Format: 3\n"));
    const Result<SnapshotStore> read = SnapshotStore::open(store.top());
    ASSERT_TRUE(read);
    EXPECT_EQ(read->find(1)->images[1].needs, (Seqs{0}));
    EXPECT_EQ(read->find(1)->needs(), (std::set<int>{0}));
    ASSERT_TRUE(save(store, {}, 1));
    EXPECT_TRUE(metadata(store).starts_with("#\n# Cryo Format: 2\n"));
}

TEST(Deltas, ImpossibleNumbersAreRefused)
{
    std::map<int, Snapshot> all;
    all[3] = {.seq = 3, .finished = true, .mark = "Cryo snapshot 0", .completed = "then"};
    all[3].images = {{.rank = 0, .pid = 9, .file = "i", .needs = {-1}}};
    EXPECT_FALSE(parse_metadata(metadata_text(all)));
    all[3].images[0].needs = {1, 0};
    const auto read = parse_metadata(metadata_text(all));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->at(3).images[0].needs, (Seqs{1, 0}));
}

} // namespace

} // namespace cryo::coord
