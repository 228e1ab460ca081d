// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints of jobs with thousands of ranks (large_job.hpp).
#include "large_job.hpp"

#include "../scratch.hpp"
#include "coord/snapshot.hpp"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <optional>
#include <stdexcept>
#include <string>

namespace cryo::coord::sim {
namespace {

constexpr uint32_t below_first = 4; // daemons, in the tree
// Five frames each way, of the checkpoint and of the exchange; and the last ones of the checkpoint
// before, where they come late.
constexpr uint64_t most_each = 8;
// So slow no machine is: no sign of life is asked for, and nothing is joined later.
constexpr char hours[] = "36000";

class Variable
{
  public:
    Variable(const char *name, const char *value) : name_(name)
    {
        if (const char *before = getenv(name); before != nullptr)
            before_ = before;
        setenv(name, value, 1);
    }
    ~Variable()
    {
        if (before_)
            setenv(name_, before_->c_str(), 1);
        else
            unsetenv(name_);
    }
    Variable(const Variable &) = delete;
    Variable &operator=(const Variable &) = delete;

  private:
    const char *name_;
    std::optional<std::string> before_;
};

void expect_saved(LargeJob &job, uint64_t ranks)
{
    const Figures figures = job.checkpoint();
    EXPECT_EQ(figures.error, "");
    EXPECT_EQ(figures.ranks, ranks);
    EXPECT_LE(figures.to_root, most_each * below_first);
    EXPECT_LE(figures.from_root, most_each * below_first);
    printf("%ju ranks: %.3f s, %.3f s of the first daemon, %ju frames to it, %ju from it\n",
           uintmax_t(ranks), figures.seconds, figures.root_seconds, uintmax_t(figures.to_root),
           uintmax_t(figures.from_root));
}

// With a message for each node, and two for each rank, the first daemon would have 8,500.
TEST(LargeJob, HasAMessageForEachPartOfTheTree)
{
    const Variable patient("CRYO_DEADLINE", hours);
    const Scratch scratch;
    LargeJob job({.nodes = 250, .ranks_on_each = 16}, scratch / "job");
    expect_saved(job, 4000);
    expect_saved(job, 4000);
}

TEST(LargeJob, MayHaveItsRanksInTurns)
{
    const Variable patient("CRYO_DEADLINE", hours);
    const Scratch scratch;
    LargeJob job({.nodes = 40, .ranks_on_each = 30, .cyclic = true}, scratch / "job");
    expect_saved(job, 1200);
}

// What opal-restart reads was written by the nodes, and the snapshot is whole.
TEST(LargeJob, HasImagesWithMetadataOfTheirNodes)
{
    const Variable patient("CRYO_DEADLINE", hours);
    const Scratch scratch;
    LargeJob job({.nodes = 20, .ranks_on_each = 4, .images = true}, scratch / "job");
    expect_saved(job, 80);
    for (const auto &entry : std::filesystem::directory_iterator(scratch / "job/snapshots")) {
        const Result<SnapshotStore> store = SnapshotStore::open(entry.path());
        ASSERT_TRUE(store) << store.error().text();
        ASSERT_NE(store->latest(), nullptr);
        EXPECT_EQ(store->latest()->images.size(), 80U);
        const Result<void> whole = store->check(*store->latest(), Trust());
        EXPECT_TRUE(whole) << whole.error().text();
    }
}

// More than 1,024 of them: the metadata count them, and each rank's own say where it was.
TEST(LargeJob, HasRanksThatAreCounted)
{
    const bool has_memory = std::filesystem::is_directory("/dev/shm");
    const Variable fast("TMPDIR", has_memory ? "/dev/shm" : "/tmp"); // thousands are synced
    const Variable patient("CRYO_DEADLINE", hours);
    const Scratch scratch;
    LargeJob job({.nodes = 65, .ranks_on_each = 16, .images = true, .deltas = true},
                 scratch / "job");
    expect_saved(job, 1040);
    expect_saved(job, 1040); // based on the first, of which it names each rank
    for (const auto &entry : std::filesystem::directory_iterator(scratch / "job/snapshots")) {
        const Result<SnapshotStore> store = SnapshotStore::open(entry.path());
        ASSERT_TRUE(store) << store.error().text();
        for (const auto &[seq, listed] : store->snapshots()) {
            EXPECT_EQ(listed.counted, seq == 0 ? 1040U : 0U);
            const Snapshot snapshot = store->with_ranks(listed);
            ASSERT_EQ(snapshot.images.size(), 1040U);
            EXPECT_EQ(store->image_path(snapshot, snapshot.images[1039]).find("/ranks_1/") !=
                          std::string::npos,
                      seq == 0);
            EXPECT_EQ(snapshot.images[1039].node, "n64");
            EXPECT_EQ(snapshot.needs(), seq == 0 ? std::set<int>() : std::set{0});
            const Result<void> whole = store->check(snapshot, Trust());
            EXPECT_TRUE(whole) << whole.error().text();
        }
    }
}

// What they are based on comes along the tree, too: the first daemon has no message of each rank.
TEST(LargeJob, HasDeltas)
{
    const Variable patient("CRYO_DEADLINE", hours);
    const Scratch scratch;
    LargeJob job({.nodes = 40, .ranks_on_each = 4, .images = true, .deltas = true},
                 scratch / "job");
    for (int seq = 0; seq < 3; seq++)
        expect_saved(job, 160);
    for (const auto &entry : std::filesystem::directory_iterator(scratch / "job/snapshots")) {
        const Result<SnapshotStore> store = SnapshotStore::open(entry.path());
        ASSERT_TRUE(store) << store.error().text();
        for (const auto &[seq, snapshot] : store->snapshots()) {
            const std::vector<int> needs = seq == 0 ? std::vector<int>() : std::vector{seq - 1};
            ASSERT_EQ(snapshot.images.size(), 160U);
            for (const SnapshotImage &image : snapshot.images)
                EXPECT_EQ(image.needs, needs);
            const Result<void> whole = store->check(snapshot, Trust());
            EXPECT_TRUE(whole) << whole.error().text();
        }
    }
}

// Daemons below it in the tree are not heard either. Nor would any be if this process, in which all
// of them are, stood still for as long.
TEST(LargeJob, NamesTheDaemonThatKeepsOthersBack)
{
    const Variable narrow("CRYO_FANOUT", "4");
    const Variable deadline("CRYO_DEADLINE", "10");
    const Scratch scratch;
    LargeJob job({.nodes = 85, .ranks_on_each = 1}, scratch / "job");
    job.stop_daemon(2);
    const Figures figures = job.checkpoint();
    EXPECT_NE(figures.error.find("node n2: its daemon has said nothing for 10 s"),
              std::string::npos)
        << figures.error;
}

std::string why_it_stops(LargeJob &job)
{
    try {
        return "a checkpoint: " + job.checkpoint().error;
    } catch (const std::runtime_error &error) {
        return error.what();
    }
}

// Where nobody loses patience, a test of it would wait for ever, and nobody would know for what.
TEST(LargeJob, SaysWhichRankKeepsItBack)
{
    const Variable patient("CRYO_DEADLINE", hours);
    const Scratch scratch;
    LargeJob job({.nodes = 40, .ranks_on_each = 2, .silent = 33, .look_ms = 500}, scratch / "job");
    const std::string why = why_it_stops(job);
    EXPECT_NE(why.find("waits for all ranks to stand still; 0 of 80 images are there"),
              std::string::npos)
        << why;
    EXPECT_NE(why.find("n16 has to hear more of rank 33"), std::string::npos) << why;
}

TEST(LargeJob, SaysWhichNodesKeepItBack)
{
    const Variable patient("CRYO_DEADLINE", hours);
    const Scratch scratch;
    LargeJob job({.nodes = 40, .ranks_on_each = 1, .look_ms = 500}, scratch / "job");
    job.stop_daemon(1); // and with it all below it
    const std::string why = why_it_stops(job);
    EXPECT_NE(why.find("is prepared, of which nodes have said nothing yet: n1;"), std::string::npos)
        << why;
    EXPECT_NE(why.find("stopped: n1"), std::string::npos) << why;
}

TEST(LargeJob, SaysThatItNeedsMoreDescriptors)
{
    const Scratch scratch;
    try {
        const LargeJob job({.nodes = 1U << 31}, scratch / "job");
        ADD_FAILURE() << "there are descriptors for all of them";
    } catch (const std::runtime_error &error) {
        EXPECT_NE(std::string(error.what()).find("raise the hard limit"), std::string::npos)
            << error.what();
    }
}

TEST(LargeJob, CountsFramesByTheirKind)
{
    const Variable patient("CRYO_DEADLINE", hours);
    const Scratch scratch;
    LargeJob job({.nodes = 40, .ranks_on_each = 2, .images = true}, scratch / "job");
    const Figures figures = job.checkpoint();
    EXPECT_EQ(figures.error, "");
    for (const char *kind : {"exchange: clocks", "exchange: ready", "exchange: drained",
                             "reports: prepared", "reports: images"})
        EXPECT_EQ(figures.kinds.at(kind).to_root, below_first) << kind;
    for (const char *kind : {"prepare", "exchange: request", "exchange: expected"})
        EXPECT_EQ(figures.kinds.at(kind).from_root, below_first) << kind;
}

} // namespace
} // namespace cryo::coord::sim
