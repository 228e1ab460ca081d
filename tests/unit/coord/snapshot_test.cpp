// SPDX-License-Identifier: Apache-2.0
// What is removed from a directory of global snapshots, and what never is.
#include "coord/snapshot_text.hpp"
#include "store.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::coord {

namespace {

namespace fs = std::filesystem;

using Seqs = std::vector<int>;

// Nothing changes, and the error says what to do.
void expect_refused(const Store &store, const std::string &name = reference)
{
    const auto before = store.everything();
    const Result<SnapshotWriter> writer = store.begin(name);
    ASSERT_FALSE(writer);
    EXPECT_NE(writer.error().text().find("choose another --name"), std::string::npos)
        << writer.error().text();
    EXPECT_EQ(store.everything(), before);
}

TEST(Snapshots, ARoundKeepsWhatItShould)
{
    const Store store;
    for (int i = 0; i < 4; i++)
        ASSERT_TRUE(store.save());
    EXPECT_EQ(store.finished(), (Seqs{0, 1, 2, 3}));
    ASSERT_TRUE(store.save(2));
    EXPECT_EQ(store.finished(), (Seqs{3, 4}));
    EXPECT_FALSE(fs::exists(store.top() / "0"));
    EXPECT_FALSE(fs::exists(store.top() / ".0.tmp"));
}

// A supervised job has another launcher after each recovery. Others' snapshots stay.
TEST(Snapshots, ASeriesKeepsWhatItShould)
{
    const Store store;
    ASSERT_TRUE(store.save(2, reference, "9-0"));         // 0: of a job of its own
    ASSERT_TRUE(store.save(2, reference, "412-0", "s1")); // 1
    ASSERT_TRUE(store.save(2, reference, "500-0", "s1")); // 2: the same job, brought back
    ASSERT_TRUE(store.save(2, reference, "500-0", "s2")); // 3: of another supervisor
    ASSERT_TRUE(store.save(2, reference, "412-0"));       // 4: brought back by hand
    EXPECT_EQ(store.finished(), (Seqs{0, 1, 2, 3, 4}));
    ASSERT_TRUE(store.save(2, reference, "501-0", "s1"));
    EXPECT_EQ(store.finished(), (Seqs{0, 2, 3, 4, 5}));
    ASSERT_TRUE(store.save(1, reference, "502-0", "s1"));
    EXPECT_EQ(store.finished(), (Seqs{0, 3, 4, 6}));
    EXPECT_EQ(SnapshotStore::open(store.top())->find(6)->series, "s1");
}

TEST(Snapshots, WhatIsAbandonedIsNotListedAndStays)
{
    const Store store;
    for (int i = 0; i < 3; i++)
        ASSERT_TRUE(store.save());
    store.write(std::string(reference) + "/abandoned.2/mine", "mine");
    {
        Result<SnapshotWriter> writer = SnapshotWriter::open(store.top());
        ASSERT_TRUE(writer);
        ASSERT_TRUE(writer->abandon(2)); // the name is taken
        ASSERT_TRUE(writer->abandon(1));
        EXPECT_EQ(writer->abandon(1).error().code(), ENOENT);
        // No other one is made meanwhile.
        EXPECT_EQ(SnapshotWriter::open(store.top()).error().code(), EBUSY);
        EXPECT_FALSE(store.begin());
    }
    EXPECT_EQ(store.finished(), (Seqs{0}));
    EXPECT_TRUE(fs::exists(store.top() / "abandoned.1" / "opal_snapshot_0.ckpt"));
    EXPECT_TRUE(fs::exists(store.top() / "abandoned.2.2" / "opal_snapshot_0.ckpt"));
    EXPECT_EQ(store.read(std::string(reference) + "/abandoned.2/mine"), "mine");
    ASSERT_TRUE(store.save());
    EXPECT_EQ(store.finished(), (Seqs{0, 3})); // no number comes again
}

TEST(Snapshots, WhereThereAreNoneNoneIsTakenAway)
{
    const Store store;
    EXPECT_EQ(SnapshotWriter::open(store.top()).error().code(), ENOENT);
    EXPECT_FALSE(fs::exists(store.top()));
}

TEST(Snapshots, WhatIsNotCommittedGoes)
{
    const Store store;
    ASSERT_TRUE(store.save());
    {
        const Result<SnapshotWriter> writer = store.begin();
        ASSERT_TRUE(writer);
        ASSERT_TRUE(writer->put_token("token"));
        Store::put_images(*writer);
    }
    EXPECT_FALSE(fs::exists(store.top() / ".1.tmp"));
    ASSERT_TRUE(store.save());
    EXPECT_EQ(store.finished(), (Seqs{0, 1}));
}

// The directory of a writer that was killed, at any point, is restored as it was then.
// Nodes write what is beside an image. Then a commit writes nothing there, and looks all the same.
TEST(Snapshots, WhatNodesHaveDescribedIsLookedAt)
{
    const Store store;
    Result<SnapshotWriter> writer = store.begin();
    ASSERT_TRUE(writer);
    std::vector<SnapshotImage> images = Store::put_images(*writer);
    const std::string first =
        std::filesystem::path(writer->directory()) / rank_directory(0) / local_metadata_name;
    {
        const Result<Directory> rank = Directory::open(fs::path(first).parent_path());
        ASSERT_TRUE(rank);
        ASSERT_TRUE(describe_image(*rank, images[0]));
        SnapshotImage other = images[0];
        other.bytes++;
        EXPECT_EQ(describe_image(*rank, other).error().code(), EIO);
    }
    EXPECT_TRUE(fs::exists(first));
    std::ofstream(first) << "as it was";
    images[0].is_described = true;
    images[0].bytes++;
    EXPECT_EQ(writer->commit(images).error().code(), EIO);
    images[0].bytes--;
    ASSERT_TRUE(writer->commit(images));
    const std::string in = std::string(reference) + "/0/";
    EXPECT_EQ(store.read(in + rank_directory(0) + "/" + local_metadata_name), "as it was");
    EXPECT_NE(store.read(in + rank_directory(1) + "/" + local_metadata_name).find("# CONTEXT: "),
              std::string::npos);
}

TEST(Snapshots, WhatSomebodyDiedOverGoes)
{
    const Store store;
    ASSERT_TRUE(store.save());
    const fs::path copy = store.at("copy");
    for (int point = 0; point < 4; point++) {
        Result<SnapshotWriter> writer = store.begin();
        ASSERT_TRUE(writer);
        const fs::path made = writer->directory();
        const std::string seq = std::to_string(writer->seq());
        Store::put_images(*writer);
        if (point == 1) // before the mark was written
            for (const auto &one : fs::directory_iterator(made))
                fs::remove_all(one);
        if (point == 2) // while the mark was being written
            for (const auto &one : fs::directory_iterator(made))
                fs::remove_all(one);
        if (point == 2)
            std::ofstream(made / "..cryo-snapshot.tmp") << "Cryo";
        if (point == 3) // between the rename and the metadata
            fs::rename(made, store.top() / seq);
        fs::copy(store.top(), copy, fs::copy_options::recursive);
        {
            const SnapshotWriter gone = std::move(*writer);
        }
        fs::remove_all(store.top());
        fs::rename(copy, store.top());
        ASSERT_TRUE(fs::exists(store.top() / (point == 3 ? seq : "." + seq + ".tmp"))) << point;
        ASSERT_TRUE(store.save()) << point;
        EXPECT_FALSE(fs::exists(store.top() / ("." + seq + ".tmp"))) << point;
        EXPECT_EQ(store.finished().size(), static_cast<size_t>(point) + 2) << point;
    }
}

TEST(Snapshots, MetadataThatCannotBeReadAreNotEmpty)
{
    const Store store;
    ASSERT_TRUE(store.save());
    ASSERT_TRUE(store.save());
    const fs::path file = store.top() / meta;
    const std::string whole = store.read(std::string(reference) + "/" + meta);
    for (size_t size = 0; size < whole.size(); size += 3) {
        fs::resize_file(file, size);
        expect_refused(store);
        ASSERT_FALSE(HasFailure()) << "cut at " << size;
        store.write(std::string(reference) + "/" + meta, whole);
    }
    for (size_t at = 0; at < whole.size(); at += 7) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ 1);
        store.write(std::string(reference) + "/" + meta, changed);
        expect_refused(store);
        ASSERT_FALSE(HasFailure()) << "changed at " << at;
    }
    fs::remove(file);
    expect_refused(store); // snapshots without metadata may belong to a user
    fs::create_directory(file);
    expect_refused(store);
    fs::remove(file);
    fs::create_symlink("elsewhere", file);
    expect_refused(store);
    fs::remove(file);
    ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
    expect_refused(store);
    fs::remove(file);
    store.write(std::string(reference) + "/" + meta, whole);
    ASSERT_TRUE(store.save());
    EXPECT_EQ(store.finished(), (Seqs{0, 1, 2}));
}

TEST(Snapshots, MetadataOfModeZeroAreNotEmpty)
{
    if (geteuid() == 0 && seteuid(65534) != 0)
        GTEST_SKIP() << "root reads everything";
    {
        const Store store;
        ASSERT_TRUE(store.save());
        ASSERT_EQ(chmod((store.top() / meta).c_str(), 0), 0);
        expect_refused(store);
        ASSERT_EQ(chmod((store.top() / meta).c_str(), 0600), 0);
        EXPECT_EQ(store.finished(), (Seqs{0}));
    }
    EXPECT_TRUE(geteuid() != 65534 || getuid() != 0 || seteuid(0) == 0);
}

// An OpenFOAM case has folders with names like snapshots.
TEST(Snapshots, AForeignDirectoryIsNotTouched)
{
    const Store store;
    for (const char *file :
         {"case/0/U", "case/100/U", "case/200/U", "case/.3.tmp/x", "case/system/y"})
        store.write(file, "mine");
    expect_refused(store, "case");
    // Nor are foreign files in a directory of snapshots, by whatever name.
    ASSERT_TRUE(store.save());
    const std::string top(reference);
    for (const char *file : {"/100/U", "/.7.tmp/U", "/notes", "/.notes.tmp"})
        store.write(top + file, "mine");
    ASSERT_TRUE(store.save());
    ASSERT_TRUE(store.save(1));
    for (const char *file : {"/100/U", "/.7.tmp/U", "/notes", "/.notes.tmp"})
        EXPECT_EQ(store.read(top + file), "mine") << file;
    EXPECT_EQ(store.finished(), (Seqs{102}));
}

TEST(Snapshots, AForeignFileInASnapshotStays)
{
    const Store store;
    const std::string top(reference);
    ASSERT_TRUE(store.save());
    store.write(top + "/0/notes", "mine");
    ASSERT_TRUE(store.save());
    store.write(top + "/1/opal_snapshot_0.ckpt/notes", "mine");
    EXPECT_FALSE(store.save(1)); // the error is reported
    EXPECT_EQ(store.finished(), (Seqs{2}));
    ASSERT_TRUE(store.save());
    EXPECT_EQ(store.finished(), (Seqs{2, 3}));
    size_t notes = 0;
    for (const std::string &file : store.everything())
        notes += file.ends_with("/notes") ? 1 : 0;
    EXPECT_EQ(notes, 2U);
}

// A healing that was killed, or was not needed, has left these.
TEST(Snapshots, WorkOnASnapshotGoesWithIt)
{
    const Store store;
    const std::string top(reference);
    for (int i = 0; i < 3; i++)
        ASSERT_TRUE(store.save());
    store.write(top + "/0/.brought/node.0/opal_snapshot_0.ckpt/cryo_context.500", "image");
    store.write(top + "/0/.brought/node.0/parity", "parity");
    store.write(top + "/0/.healed/opal_snapshot_1.ckpt/.cryo_context.501.tmp", "half");
    store.write(top + "/1/.healed/notes", "mine");
    const Result<void> saved = store.save(2);
    ASSERT_FALSE(saved);
    EXPECT_NE(saved.error().text().find("/1/.healed/notes: was not made by Cryo"),
              std::string::npos)
        << saved.error().text();
    EXPECT_FALSE(fs::exists(store.top() / "0"));
    EXPECT_FALSE(fs::exists(store.top() / ".0.tmp"));
    EXPECT_EQ(store.read(top + "/1/.healed/notes"), "mine");
    EXPECT_EQ(store.finished(), (Seqs{2, 3}));
}

TEST(Snapshots, AHealingUnderWayKeepsIt)
{
    const Store store;
    const std::string top(reference);
    ASSERT_TRUE(store.save());
    fs::create_directory(store.top() / "0" / ".healed");
    fs::permissions(store.top() / "0" / ".healed", fs::perms::owner_all);
    {
        const Fd held(open((store.top() / "0" / ".healed").c_str(), O_RDONLY | O_CLOEXEC));
        ASSERT_EQ(flock(held.get(), LOCK_EX), 0);
        const Result<void> saved = store.save(1);
        ASSERT_FALSE(saved);
        EXPECT_EQ(saved.error().code(), EBUSY);
        EXPECT_TRUE(fs::exists(store.top() / "0" / "opal_snapshot_0.ckpt"));
    }
    ASSERT_TRUE(store.save());
    EXPECT_FALSE(fs::exists(store.top() / "0"));
}

// A different mark: the directory was copied there, or made by hand.
TEST(Snapshots, AnotherMarkIsNotOurs)
{
    const Store store;
    const std::string top(reference);
    ASSERT_TRUE(store.save());
    store.write(top + "/0/.cryo-snapshot", "Cryo snapshot 0\n");
    ASSERT_TRUE(store.save());
    const auto before = fs::exists(store.top() / "0");
    EXPECT_FALSE(store.save(1));
    EXPECT_EQ(before, fs::exists(store.top() / "0"));
    EXPECT_TRUE(fs::exists(store.top() / "0" / "opal_snapshot_0.ckpt" / "cryo_context.500"));
}

TEST(Snapshots, NoLinkIsFollowed)
{
    const Store store;
    ASSERT_TRUE(store.save());
    const std::string top(reference);
    store.write("elsewhere/opal_snapshot_0.ckpt/cryo_context.500", "mine");
    store.write("elsewhere/.cryo-snapshot", store.read(top + "/0/.cryo-snapshot"));
    fs::rename(store.top() / "0", store.at("moved"));
    fs::create_directory_symlink(store.at("elsewhere"), store.top() / "0");
    EXPECT_FALSE(store.save(1));
    EXPECT_EQ(store.read("elsewhere/opal_snapshot_0.ckpt/cryo_context.500"), "mine");
    fs::create_directory_symlink(store.at("elsewhere"), store.at("link.ckpt"));
    const Result<SnapshotWriter> writer = store.begin("link.ckpt");
    ASSERT_FALSE(writer);
    EXPECT_NE(writer.error().text().find("symbolic link"), std::string::npos);
}

// As the previous release wrote them.
TEST(Snapshots, OlderMetadataAreReadAndTheirSnapshotsStay)
{
    const Store store;
    const std::string top(reference);
    const std::string text = "#\n# Seq: 0\n# AMCA: \n"
                             "# Local Snapshot Format Reference: opal_snapshot_%d.ckpt\n"
                             "# Timestamp: now\n# Cryo Job: 412-0\n# Cryo Launcher: 412\n"
                             "# Cryo Directory: /\n# Cryo Command: [\"mpirun\", 1]\n"
                             "# Process: 412.0\n# OPAL CRS Component: cryo\n# Cryo PID: 500\n"
                             "# Cryo Node: here\n# Cryo Context: cryo_context.500\n"
                             "# Cryo Bytes: 4\n# Timestamp: then\n# Finished Seq: 0\n";
    store.write(top + "/" + meta, text);
    store.write(top + "/0/opal_snapshot_0.ckpt/cryo_context.500", "four");
    store.write(top + "/0/opal_snapshot_0.ckpt/snapshot_meta.data",
                "# CONTEXT: cryo_context.500\n");
    EXPECT_EQ(store.finished(), (Seqs{0}));
    ASSERT_TRUE(store.save());
    ASSERT_TRUE(store.save(1));
    EXPECT_EQ(store.finished(), (Seqs{0, 2}));
    store.write(top + "/" + meta, text.substr(0, text.find("# Finished")));
    expect_refused(store);
}

TEST(Snapshots, MetadataNameSets)
{
    std::map<int, Snapshot> all;
    all[3] = {.seq = 3, .finished = true, .mark = "Cryo snapshot 0", .completed = "then"};
    all[3].redundancy = "rs:2";
    all[3].sets = {{"0a", {"n1", "n2"}}, {"0b", {"n \"3\"", "n4/7"}}};
    const Result<std::map<int, Snapshot>> read = parse_metadata(metadata_text(all));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->at(3).redundancy, "rs:2");
    ASSERT_EQ(read->at(3).sets.size(), 2U);
    EXPECT_EQ(read->at(3).sets[1].id, "0b");
    EXPECT_EQ(read->at(3).sets[1].nodes, all[3].sets[1].nodes);
}

// A checkpoint keeps the lines of earlier images as they are.
TEST(Snapshots, ImagesThatNobodyHasReadAreWrittenAgain)
{
    std::map<int, Snapshot> all;
    for (const int seq : {3, 4, 5, 8}) {
        all[seq] = {.seq = seq, .finished = seq != 8, .mark = fmt::format("Cryo snapshot {}", seq)};
        all[seq].command = {"mpirun", "# Process: 1.2", "\n#\n# Seq: 9"};
        all[seq].started = "now";
        all[seq].completed = seq != 8 ? "then" : "";
        for (uint32_t rank = 0; seq != 8 && rank < 3; rank++)
            all[seq].images.push_back({.rank = rank,
                                       .pid = 500,
                                       .node = "# Timestamp: n",
                                       .file = image_name(500),
                                       .bytes = 7,
                                       .checksum = std::string(32, 'a'),
                                       .local = rank == 2 ? "/tmp/x" : ""});
    }
    all[4].redundancy = "xor";
    all[4].sets = {{"0a", {"n1", "n2"}}};
    all[5].images.clear();
    const std::string text = metadata_text(all);
    Result<std::map<int, Snapshot>> heads = parse_metadata(text, Depth::heads);
    ASSERT_TRUE(heads) << heads.error().text();
    EXPECT_EQ(metadata_text(*heads), text);
    for (auto &[seq, snapshot] : *heads) {
        EXPECT_EQ(snapshot.images.size(), 0U);
        EXPECT_EQ(snapshot.finished, seq != 8);
        EXPECT_EQ(snapshot.sets.size(), seq == 4 ? 1U : 0U);
        snapshot.read();
        EXPECT_EQ(snapshot.images.size(), all[seq].images.size());
    }
    EXPECT_EQ(heads->at(4).images.at(2).local, "/tmp/x");
    EXPECT_EQ(metadata_text(*heads), text);
}

// The first delta is based on an image whose lines were not read.
TEST(Snapshots, WriterKnowsEarlierImages)
{
    const Store store;
    ASSERT_TRUE(store.save());
    Result<SnapshotWriter> writer = store.begin();
    ASSERT_TRUE(writer);
    EXPECT_TRUE(writer->has_image(0, 1));
    EXPECT_FALSE(writer->has_image(0, 2));
    EXPECT_FALSE(writer->has_image(1, 0)); // which is being made
}

TEST(Snapshots, MetadataAreLinesWhateverIsInThem)
{
    const Store store;
    Result<SnapshotWriter> writer = SnapshotWriter::begin(
        store.base(), reference,
        {.job = "1-0", .command = {"\n# Seq: 7"}, .directory = "/a\n# Seq: 7\n# Finished Seq: 7"});
    ASSERT_TRUE(writer);
    std::vector<SnapshotImage> images = Store::put_images(*writer);
    images[0].node = "a\n# Seq: 8\n# Finished Seq: 8";
    ASSERT_TRUE(writer->commit(images));
    EXPECT_EQ(store.finished(), (Seqs{0}));
    Result<SnapshotWriter> other = SnapshotWriter::begin(store.base(), "other", {});
    ASSERT_TRUE(other);
    images = Store::put_images(*other);
    images[0].file = "../../../../mine";
    store.write("mine", "image 0");
    EXPECT_FALSE(other->commit(images));
}

} // namespace

} // namespace cryo::coord
