// SPDX-License-Identifier: Apache-2.0
//
// Small programs for corner cases that random ones seldom reach, each under many schedules.
#include <gtest/gtest.h>

#include "amount.hpp"
#include "world.hpp"

namespace cryo::bookmark::sim {
namespace {

void run_often(const Program &program)
{
    for (uint64_t seed = 1; seed <= amount(500); seed++) {
        Report plain = run({.seed = seed, .program = &program, .checkpoints = 0});
        Report saved = run({.seed = seed, .program = &program, .checkpoints = 4});
        ASSERT_EQ(plain.fault, "") << "seed " << seed;
        ASSERT_EQ(saved.fault, "") << "seed " << seed;
        ASSERT_EQ(saved.digests, plain.digests) << "seed " << seed;
    }
}

// Ranks 1 and 2 meet in a collective of communicator 1, which rank 2 enters early.
Program one_is_late()
{
    Program p;
    p.comms = {{.group = {0, 1, 2}, .remote = {}}, {.group = {1, 2}, .remote = {}}};
    p.ranks.resize(3);
    for (auto &ops : p.ranks)
        ops.push_back({.kind = Do::make_comms, .made = {1}});
    p.ranks[2].push_back({.kind = Do::collective, .comm = 1});
    return p;
}

void meet(Program &p)
{
    p.ranks[1].push_back({.kind = Do::collective, .comm = 1});
    for (auto &ops : p.ranks)
        ops.push_back({.kind = Do::collective});
}

TEST(Corners, ASenderThatStandsStillIsSetGoing)
{
    Program p = one_is_late();
    p.ranks[0].push_back({.kind = Do::compute, .steps = 30});
    p.ranks[0].push_back({.kind = Do::send, .peer = 1, .tag = 2});
    p.ranks[1].push_back({.kind = Do::recv, .peer = 0, .tag = 2});
    meet(p);
    run_often(p);
}

TEST(Corners, AMatchedProbeDoesNotCountAsUnderWay)
{
    // Rank 0 has sent one message more than rank 1 has received; rank 1 has only probed it.
    Program p = one_is_late();
    p.ranks[0].push_back({.kind = Do::send, .peer = 1, .tag = 1});
    p.ranks[0].push_back({.kind = Do::compute, .steps = 30});
    p.ranks[0].push_back({.kind = Do::send, .peer = 1, .tag = 2});
    p.ranks[1].push_back({.kind = Do::mprobe, .peer = 0, .tag = 1, .slot = 1});
    p.ranks[1].push_back({.kind = Do::recv, .peer = 0, .tag = 2});
    p.ranks[1].push_back({.kind = Do::mrecv, .slot = 1});
    meet(p);
    run_often(p);
}

TEST(Corners, AMemberThatIsStillMakingTheCommunicatorHearsWhoWaits)
{
    Program p = one_is_late();
    p.comms.push_back({.group = {0, 1}, .remote = {}});
    for (WorldRank r : {0U, 1U, 2U})
        p.ranks[r].insert(p.ranks[r].end() - (r == 2), {.kind = Do::make_comms, .made = {2}});
    p.ranks[0].push_back({.kind = Do::compute, .steps = 30});
    p.ranks[0].push_back({.kind = Do::send, .comm = 2, .peer = 1, .tag = 2});
    p.ranks[1].push_back(
        {.kind = Do::recv, .comm = 2, .any_source = true, .tag = 2, .unordered = true});
    meet(p);
    run_often(p);
}

TEST(Corners, AChainOfNeedsReachesItsEnd)
{
    // Rank 1 waits for 0, 0 for 3, and 3 for 4; all but 1 could hold.
    Program p = one_is_late();
    p.comms[0].group = {0, 1, 2, 3, 4};
    p.ranks.resize(5);
    for (WorldRank r : {3U, 4U})
        p.ranks[r].push_back({.kind = Do::make_comms, .made = {1}});
    p.ranks[4].push_back({.kind = Do::compute, .steps = 50});
    p.ranks[4].push_back({.kind = Do::send, .peer = 3, .tag = 1, .rendezvous = true});
    for (auto [from, to] : {std::pair(3U, 0U), std::pair(0U, 1U)}) {
        p.ranks[from].push_back({.kind = Do::recv, .peer = from == 3 ? 4U : 3U, .tag = 1});
        p.ranks[from].push_back({.kind = Do::send, .peer = to, .tag = 1});
    }
    p.ranks[1].push_back({.kind = Do::irecv, .peer = 0, .tag = 1, .slot = 1});
    p.ranks[1].push_back({.kind = Do::wait_recv, .polls = true, .slot = 1});
    meet(p);
    run_often(p);
}

TEST(Corners, ARankBehindMayHaveToEnterOtherCollectivesFirst)
{
    // Rank 1 is behind in communicator 1, but must first meet rank 0 in communicator 2, and rank 0
    // must first meet rank 3 in communicator 3: clocks are raised more than once.
    Program p = one_is_late();
    p.comms[0].group = {0, 1, 2, 3};
    p.comms.push_back({.group = {0, 1}, .remote = {}});
    p.comms.push_back({.group = {0, 3}, .remote = {}});
    p.ranks.resize(4);
    // The three overlap, so each is made by its own collective.
    for (WorldRank r = 0; r < 4; r++) {
        p.ranks[r] = {{.kind = Do::make_comms, .made = {1}},
                      {.kind = Do::make_comms, .made = {2}},
                      {.kind = Do::make_comms, .made = {3}}};
    }
    p.ranks[2].push_back({.kind = Do::collective, .comm = 1});
    p.ranks[3].push_back({.kind = Do::compute, .steps = 60});
    for (int i = 0; i < 3; i++) {
        p.ranks[3].push_back({.kind = Do::collective, .comm = 3});
        p.ranks[0].push_back({.kind = Do::collective, .comm = 3});
        p.ranks[0].push_back({.kind = Do::collective, .comm = 2});
        p.ranks[1].push_back({.kind = Do::collective, .comm = 2});
    }
    meet(p);
    run_often(p);
}

TEST(Corners, ACollectiveThatOneRankIsRefusedIsNone)
{
    // Other ranks never call the refused collective, or call it correctly after the refused call.
    Program p = one_is_late();
    p.ranks[2].pop_back();
    for (int i = 0; i < 4; i++) {
        p.ranks[0].push_back({.kind = Do::refused});
        p.ranks[0].push_back({.kind = Do::compute, .steps = 10});
        p.ranks[1].push_back({.kind = Do::refused, .comm = 1});
        p.ranks[2].push_back({.kind = Do::compute, .steps = 25});
        p.ranks[1].push_back({.kind = Do::send, .peer = 0, .tag = 1});
        p.ranks[0].push_back({.kind = Do::recv, .peer = 1, .tag = 1});
        if (i % 2 == 1) {
            for (auto &ops : p.ranks)
                ops.push_back({.kind = Do::collective});
            for (WorldRank r : {1U, 2U})
                p.ranks[r].push_back({.kind = Do::collective, .comm = 1});
        }
    }
    run_often(p);
}

} // namespace
} // namespace cryo::bookmark::sim
