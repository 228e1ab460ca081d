// SPDX-License-Identifier: Apache-2.0
//
// Costs of a checkpoint of a large job in messages: the longest chain of hops, the rounds of the
// whole tree, the bytes that each rank and each node handle. CRYO_SOAK takes 100,000 ranks.
#include <cmath>
#include <gtest/gtest.h>

#include "amount.hpp"
#include "bookmark/rank.hpp"
#include "tree_sim.hpp"

namespace cryo::bookmark::sim {
namespace {

// A library in which messages wait to be received and nothing else happens.
class StillMpi : public Mpi
{
  public:
    std::deque<int> waiting; // sources of the waiting messages, in the first communicator
    void post(Receive &) override {}
    bool test(Receive &, Arrival &) override { return false; }
    Withdrawal withdraw(Receive &, Arrival &) override { return Withdrawal::withdrawn; }
    bool probe(Comm &, int, int, Arrival &) override { return false; }
    bool mprobe(Comm &, int, int, Matched &) override { return false; }
    void receive_matched(Matched &, Receive &) override {}
    bool take(Comm &comm, Drained &message) override
    {
        if (waiting.empty() || comm.id() != 1)
            return false;
        message.source = waiting.front();
        message.data.assign(8, 0);
        waiting.pop_front();
        return true;
    }
    void take_matched(Matched &, Drained &) override {}
    bool taken(Drained &) override { return true; }
    void deliver(Receive &, const Drained &) override {}
    bool settled(bool /*at_cut*/) override { return true; }
};

class Job
{
  public:
    // `ranks` ranks, `per_node` on a node, in a tree of that fan-out.
    Job(uint32_t ranks, uint32_t per_node, uint32_t fanout)
        : topology_(place(ranks, per_node), fanout),
          tree_(topology_, [this](WorldRank r, const auto &bytes) {
              if (int(r) == silent_) {
                  unheard_.push_back(bytes);
                  return;
              }
              ranks_[r]->rank.handle(bytes);
              woken_.push_back(r);
          })
    {
        for (WorldRank r = 0; r < ranks; r++) {
            ranks_.push_back(std::make_unique<One>(tree_, r, ranks));
            ranks_[r]->world = &ranks_[r]->rank.made(1, ranks, {}, ranks);
        }
    }

    uint32_t size() const { return uint32_t(ranks_.size()); }
    uint32_t depth() const { return topology_.depth(); }
    TreeSim &tree() { return tree_; }
    Rank &rank(WorldRank r) { return ranks_[r]->rank; }
    Comm &world(WorldRank r) { return *ranks_[r]->world; }

    void message(WorldRank from, WorldRank to, bool under_way)
    {
        world(from).sent(int(to), 8);
        if (under_way)
            ranks_[to]->mpi.waiting.push_back(int(from));
        else
            world(to).received(int(from), 8);
    }

    // From now on this rank gets no messages; -1: it gets all that it missed.
    void silence(int rank)
    {
        for (const auto &bytes : std::exchange(unheard_, {}))
            ranks_[size_t(silent_)]->rank.handle(bytes);
        silent_ = rank;
    }
    void serve_those_that_stand()
    {
        for (const auto &one : ranks_)
            if (one->rank.pending() && one->rank.must_hold())
                one->rank.serve();
    }

    // Runs a whole checkpoint; `run` is the action of a rank that may not hold. Returns the number
    // of consecutive hops.
    template <class Run>
    unsigned checkpoint(const Run &run)
    {
        EXPECT_TRUE(tree_.root().request());
        unsigned hops = 0;
        while (tree_.busy()) {
            tree_.deliver_wave();
            hops++;
            for (WorldRank r : std::exchange(woken_, {})) {
                Rank &rank = ranks_[r]->rank;
                while (rank.pending() && !rank.must_hold())
                    run(r);
                if (!rank.pending())
                    continue;
                rank.serve();
                if (rank.phase() == Rank::Phase::drained)
                    rank.saved(true);
            }
        }
        EXPECT_EQ(tree_.root().outcome(), Node::Outcome::done);
        return hops;
    }
    unsigned checkpoint()
    {
        return checkpoint([](WorldRank) { FAIL() << "nobody has to run on"; });
    }

  private:
    struct One : Link {
        One(TreeSim &t, WorldRank r, uint32_t n)
            : tree(t), self(r), rank({.self = r, .ranks = n}, *this, mpi)
        {}
        void send(Bytes message) override { tree.from_rank(self, message); }
        TreeSim &tree;
        WorldRank self;
        StillMpi mpi;
        Rank rank;
        Comm *world = nullptr;
    };

    static std::vector<std::vector<WorldRank>> place(uint32_t ranks, uint32_t per_node)
    {
        std::vector<std::vector<WorldRank>> of((ranks + per_node - 1) / per_node);
        for (WorldRank r = 0; r < ranks; r++)
            of[r / per_node].push_back(r);
        return of;
    }

    Topology topology_;
    TreeSim tree_;
    std::vector<std::unique_ptr<One>> ranks_;
    std::vector<WorldRank> woken_;
    int silent_ = -1;
    std::vector<TreeSim::Packed> unheard_;
};

uint32_t many()
{
    return uint32_t(std::min<uint64_t>(amount(10'000), 100'000));
}

// Four neighbours on a ring; one message in ten is in flight.
void halo(Job &job)
{
    for (WorldRank r = 0; r < job.size(); r++)
        for (uint32_t step : {1U, 100U, job.size() - 1, job.size() - 100})
            job.message(r, (r + step) % job.size(), (r + step) % 10 == 0);
}

constexpr uint64_t kHead = 16;
constexpr uint64_t kEntry = 24;
constexpr uint64_t kClock = 32;

TEST(Scale, DepthIsLogarithmic)
{
    for (uint32_t fanout : {2U, 4U, 16U}) {
        for (uint32_t nodes : {1U, 2U, 17U, 1000U, 10'000U}) {
            std::vector<std::vector<WorldRank>> of(nodes);
            for (uint32_t d = 0; d < nodes; d++)
                of[d].push_back(d);
            double bound = 2 + std::ceil(std::log(double(nodes)) / std::log(double(fanout)));
            EXPECT_LE(Topology(of, fanout).depth(), bound) << nodes << " nodes, " << fanout;
        }
    }
}

TEST(Scale, RootMayHaveFewerBelowIt)
{
    for (uint32_t nodes : {17U, 70U, 625U, 6250U}) {
        std::vector<std::vector<WorldRank>> of(nodes);
        const Topology tree(of, 16, 4);
        EXPECT_EQ(tree.children(0).size(), 4U);
        uint32_t below = 1;
        for (uint32_t child : tree.children(0)) {
            EXPECT_EQ(tree.parent(child), 0U);
            EXPECT_EQ(tree.children(child).size(), std::min(16U, tree.nodes(child) - 1));
            below += tree.nodes(child);
        }
        EXPECT_EQ(below, nodes);
        EXPECT_LE(tree.depth(), Topology(of, 16).depth() + 1);
    }
    const std::vector<std::vector<WorldRank>> of(6250);
    EXPECT_EQ(Topology(of, 16, 4).depth(), Topology(of, 16).depth());
    EXPECT_EQ(Topology(of, 2, 4).children(0).size(), 2U); // never more than others
}

TEST(Scale, FiveHopsALevelWhenNobodyIsBehind)
{
    Job job(many(), 16, 16);
    halo(job);
    unsigned hops = job.checkpoint();
    EXPECT_LE(job.tree().root().rounds(), 3U);
    // Request down, clocks and ready up, expected down, drained up, go down.
    EXPECT_LE(hops, 5 * job.depth() + 1);
    // Six messages on each connection: two of them go up together.
    uint64_t connections = job.size() + (job.size() / 16 - 1);
    EXPECT_LE(job.tree().messages, 6 * connections + 6);
    for (uint64_t bytes : job.tree().bytes_of_rank)
        EXPECT_LE(bytes, 8 * kHead + 2 * kClock + (4 + 1) * kEntry);
    printf("%u ranks, depth %u: %u hops, %.1f messages a connection, %ju bytes at the busiest "
           "rank, %ju in the largest message\n",
           job.size(), job.depth(), hops, double(job.tree().messages) / double(connections),
           uintmax_t(
               *std::max_element(job.tree().bytes_of_rank.begin(), job.tree().bytes_of_rank.end())),
           uintmax_t(job.tree().most_bytes));
}

TEST(Scale, SevenHopsALevelWhenSomeAreBehind)
{
    Job job(many(), 16, 16);
    halo(job);
    for (WorldRank r = 0; r < job.size(); r += 3)
        job.rank(r).collectives().start(job.world(r));
    unsigned hops =
        job.checkpoint([&](WorldRank r) { job.rank(r).collectives().start(job.world(r)); });
    EXPECT_LE(job.tree().root().rounds(), 3U);
    // As above, plus targets down and ready up.
    EXPECT_LE(hops, 7 * job.depth() + 1);
    uint64_t connections = job.size() + (job.size() / 16 - 1);
    EXPECT_LE(job.tree().messages, 8 * connections + 8);
    printf("%u ranks, depth %u: %u hops, %.1f messages a connection\n", job.size(), job.depth(),
           hops, double(job.tree().messages) / double(connections));
}

TEST(Scale, OneDaemonARank)
{
    Job job(many(), 1, 16);
    halo(job);
    unsigned hops = job.checkpoint();
    EXPECT_LE(hops, 5 * job.depth() + 1);
    EXPECT_LE(job.depth(), 2 + std::ceil(std::log2(double(job.size())) / 4));
}

TEST(Scale, SubCommunicatorsAreSettledWhereTheyLive)
{
    // Each node has a communicator of its own, in which half of its ranks are behind: no node above
    // needs to be involved.
    constexpr uint32_t kPerNode = 8;
    Job job(2048, kPerNode, 8);
    std::vector<Comm *> own;
    for (WorldRank r = 0; r < job.size(); r++) {
        std::vector<WorldRank> peers;
        for (uint32_t i = 0; i < kPerNode; i++)
            peers.push_back(r / kPerNode * kPerNode + i);
        own.push_back(&job.rank(r).made(1000 + r / kPerNode, kPerNode, peers, kPerNode));
        if (r % 2)
            job.rank(r).collectives().start(*own.back());
    }
    job.checkpoint([&](WorldRank r) { job.rank(r).collectives().start(*own[r]); });
    // A rank names the world, the communicator of MPI_Ckpt, and its own.
    EXPECT_LE(job.tree().most_bytes, kHead + 3 * kClock);
}

TEST(Scale, FreedCommunicatorsOfOneRankAreNotTold)
{
    constexpr CommId kEach = 1000;
    Job job(4, 2, 4);
    for (WorldRank r = 0; r < job.size(); r++) {
        for (CommId i = 0; i < kEach; i++) {
            Comm &own = job.rank(r).made((r + 1) * kEach + i, 1, {&r, 1}, 1);
            job.rank(r).collectives().start(own);
            job.rank(r).freed(own);
        }
    }
    job.checkpoint();
    // A rank names the world and the communicator of MPI_Ckpt.
    EXPECT_LE(job.tree().most_bytes, kHead + 2 * kClock);
}

TEST(Scale, NoNodeHoldsAMatrix)
{
    // Every rank has sent to every rank: the largest message names each rank once.
    Job job(400, 4, 4);
    for (WorldRank from = 0; from < job.size(); from++)
        for (WorldRank to = 0; to < job.size(); to++)
            job.message(from, to, (from + to) % 7 == 0);
    job.checkpoint();
    EXPECT_LE(job.tree().most_bytes, kHead + job.size() * kEntry);
}

TEST(Scale, WhoIsNotThereIsNamed)
{
    Job job(20, 4, 2);
    job.world(3).clock++; // this rank has entered a collective that the others have not
    job.rank(7).collectives().open_epoch();
    ASSERT_TRUE(job.tree().root().request());
    job.silence(5);
    while (job.tree().busy()) {
        job.tree().deliver_wave();
        job.serve_those_that_stand();
    }
    job.tree().root().inquire();
    while (job.tree().busy())
        job.tree().deliver_wave();
    std::set<std::string> said;
    for (const StateEntry &s : job.tree().states)
        said.insert(describe(s));
    EXPECT_EQ(said,
              (std::set<std::string>{"rank 5: computes and has not called MPI since the request",
                                     "rank 7: has an open one-sided epoch"}));

    // Rank 5 gets its messages; now the ranks that have not entered rank 3's collective are behind.
    job.silence(-1);
    while (job.tree().busy()) {
        job.tree().deliver_wave();
        job.serve_those_that_stand();
    }
    job.tree().states.clear();
    job.tree().root().inquire();
    while (job.tree().busy())
        job.tree().deliver_wave();
    EXPECT_EQ(job.tree().states.size(), 19U);
    bool named = false;
    for (const StateEntry &s : job.tree().states)
        named |= describe(s) == "rank 6: runs on: it has entered 0 of 1 collectives "
                                "(communicator 0000000000000001)";
    EXPECT_TRUE(named);
}

TEST(Scale, TheFirstOfManyThatAreNotThereAreNamed)
{
    Job job(1000, 100, 4);
    for (WorldRank r = 1; r < job.size(); r++)
        job.rank(r).collectives().open_epoch();
    ASSERT_TRUE(job.tree().root().request());
    for (int times = 0; times < 2; times++) {
        while (job.tree().busy())
            job.tree().deliver_wave();
        job.tree().states.clear();
        const uint64_t before = job.tree().messages;
        job.tree().root().inquire();
        while (job.tree().busy())
            job.tree().deliver_wave();
        EXPECT_EQ(job.tree().states.size(), Node::Config().most_states);
        // The question and an answer of each rank, and what goes up from each of the ten nodes.
        EXPECT_LE(job.tree().messages - before, 2 * 1009 + 9 * Node::Config().most_states);
    }
}

TEST(Scale, AgainAndAgain)
{
    Job job(1000, 8, 8);
    for (int i = 0; i < 3; i++) {
        halo(job);
        job.checkpoint();
        for (WorldRank r = 0; r < job.size(); r++)
            while (job.rank(r).pending())
                job.rank(r).serve();
    }
}

} // namespace
} // namespace cryo::bookmark::sim
