// SPDX-License-Identifier: Apache-2.0
//
// Thousands of random programs under random schedules: each runs once undisturbed and once with
// checkpoints and restarts, and must end with the same result. CRYO_SOAK runs a hundred times as
// many; CRYO_SEED sets the first seed.
#include <cstdlib>
#include <gtest/gtest.h>

#include "amount.hpp"
#include "world.hpp"

namespace cryo::bookmark::sim {
namespace {

uint64_t first_seed()
{
    const char *seed = getenv("CRYO_SEED");
    return seed ? strtoull(seed, nullptr, 10) : 1;
}

uint64_t last_seed(uint64_t count)
{
    return first_seed() + amount(count) - 1;
}

Program program_of(uint64_t seed)
{
    return draw_program(seed, 2 + uint32_t(seed % 7), 20 + int(seed * 37 % 150));
}

Options options_of(uint64_t seed, const Program &program)
{
    return {.seed = seed + 1'000'000'007, .program = &program};
}

void add(Report &sum, const Report &r)
{
    sum.done += r.done;
    sum.abandoned += r.abandoned;
    sum.restarts += r.restarts;
    sum.drained += r.drained;
    sum.withdrawn += r.withdrawn;
    sum.raises += r.raises;
    sum.needs += r.needs;
    sum.most_rounds = std::max(sum.most_rounds, r.most_rounds);
}

TEST(Schedules, StateIsThatOfAnUndisturbedRun)
{
    Report sum;
    for (uint64_t seed = first_seed(); seed <= last_seed(300); seed++) {
        Program program = program_of(seed);
        Report plain = run({.seed = seed, .program = &program, .checkpoints = 0});
        ASSERT_EQ(plain.fault, "") << "undisturbed, seed " << seed;
        Report saved = run(options_of(seed, program));
        ASSERT_EQ(saved.fault, "") << "seed " << seed;
        ASSERT_EQ(saved.digests, plain.digests) << "seed " << seed;
        add(sum, saved);
    }
    // The schedules must have exercised every part of the protocol.
    EXPECT_GT(uint64_t(sum.done), amount(500));
    EXPECT_GT(uint64_t(sum.restarts), amount(200));
    EXPECT_GT(sum.drained, amount(500));
    EXPECT_GT(sum.withdrawn, amount(500));
    EXPECT_GT(sum.raises, amount(100));
    EXPECT_GT(sum.needs, amount(100));
    EXPECT_LE(sum.most_rounds, 3U);
    printf("%d checkpoints, %d restarts; at the cuts %ju messages drained, %ju receives withdrawn; "
           "%ju raises, %ju needs\n",
           sum.done, sum.restarts, uintmax_t(sum.drained), uintmax_t(sum.withdrawn),
           uintmax_t(sum.raises), uintmax_t(sum.needs));
}

TEST(Schedules, ProgramsAskThemselves)
{
    for (bool straddles : {false, true}) {
        Report sum;
        for (uint64_t seed = first_seed(); seed <= last_seed(150); seed++) {
            Program program =
                draw_program(seed, 2 + uint32_t(seed % 7), 20 + int(seed % 60), true, straddles);
            Report plain = run({.seed = seed, .program = &program, .checkpoints = 0});
            Options options = options_of(seed, program);
            options.obeys = true;
            options.impatient = straddles;
            options.checkpoints = seed % 3 ? 0 : 2;
            Report saved = run(options);
            ASSERT_EQ(saved.fault, "") << "seed " << seed;
            ASSERT_EQ(saved.digests, plain.digests) << "seed " << seed;
            add(sum, saved);
            sum.versions += saved.versions;
            sum.straddled += saved.straddled;
        }
        EXPECT_GT(uint64_t(sum.versions), amount(500));
        if (straddles)
            EXPECT_GT(uint64_t(sum.straddled), amount(10));
        else
            EXPECT_EQ(sum.straddled, 0);
        printf("%d cuts, %d calls saved, %d straddled\n", sum.done, sum.versions, sum.straddled);
    }
}

TEST(Schedules, FailedSavesLeaveTheJobAsItWas)
{
    Report sum;
    for (uint64_t seed = first_seed(); seed <= last_seed(60); seed++) {
        Program program = program_of(seed);
        Report plain = run({.seed = seed, .program = &program, .checkpoints = 0});
        Options options = options_of(seed, program);
        options.failures = true;
        options.checkpoints = 6;
        Report saved = run(options);
        ASSERT_EQ(saved.fault, "") << "seed " << seed;
        ASSERT_EQ(saved.digests, plain.digests) << "seed " << seed;
        add(sum, saved);
    }
    EXPECT_GT(uint64_t(sum.abandoned), amount(30));
    EXPECT_GT(uint64_t(sum.done), amount(30));
}

TEST(Schedules, NobodyWaitsForTheDead)
{
    Report sum;
    for (uint64_t seed = first_seed(); seed <= last_seed(60); seed++) {
        Program program = program_of(seed);
        Options options = options_of(seed, program);
        options.deaths = true;
        Report saved = run(options);
        ASSERT_EQ(saved.fault, "") << "seed " << seed;
        add(sum, saved);
    }
    EXPECT_GT(uint64_t(sum.abandoned), amount(5));
}

class Sabotages : public testing::TestWithParam<Sabotage>
{};

TEST_P(Sabotages, AreNoticed)
{
    // One run may not reach the broken step; one of a few hundred must.
    for (uint64_t seed = 1; seed <= 500; seed++) {
        Program program = program_of(seed);
        Options options = options_of(seed, program);
        options.sabotage = GetParam();
        Report saved = run(options);
        if (saved.fault.empty()) {
            Report plain = run({.seed = seed, .program = &program, .checkpoints = 0});
            if (saved.digests == plain.digests)
                continue;
            saved.fault = "another result";
        }
        printf("seed %ju: %s\n", uintmax_t(seed), saved.fault.c_str());
        return;
    }
    FAIL() << "nobody noticed";
}

std::vector<Sabotage> all_sabotages()
{
    std::vector<Sabotage> all;
    for (int s = 1; s < int(Sabotage::last); s++)
        all.push_back(Sabotage(s));
    return all;
}

INSTANTIATE_TEST_SUITE_P(Each, Sabotages, testing::ValuesIn(all_sabotages()),
                         [](const auto &i) { return name(i.param); });

} // namespace
} // namespace cryo::bookmark::sim
