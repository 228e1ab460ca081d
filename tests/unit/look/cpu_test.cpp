// SPDX-License-Identifier: Apache-2.0
#include "look/cpu.hpp"

#include <gtest/gtest.h>

namespace cryo::capture {

namespace {

const std::string new_cpu = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: Fast 9000\n"
                            "flags\t\t: fpu sse4_2 avx avx2 avx512f hypervisor\nbugs\t\t: \n\n"
                            "processor\t: 1\nvendor_id\t: AuthenticAMD\nmodel name\t: Fast 9000\n"
                            "flags\t\t: fpu sse4_2 avx avx2 avx512f hypervisor\n";
const std::string old_cpu = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Slow 1\n"
                            "flags\t\t: fpu sse4_2 avx\n";

image::Cpu saved_on(const CpuFacts &facts)
{
    image::Cpu saved;
    saved.features = facts.features;
    saved.xcr0 = facts.xcr0;
    return saved;
}

} // namespace

TEST(Cpu, FactsAreThoseThatLibrariesChooseBy)
{
    const CpuFacts facts = cpu_facts(new_cpu);
    EXPECT_EQ("AuthenticAMD", facts.vendor);
    EXPECT_EQ("Fast 9000", facts.model);
    EXPECT_EQ("avx avx2 avx512f sse4_2", facts.features);
}

TEST(Cpu, NothingIsMissingOnTheSameOne)
{
    const CpuFacts here = present_cpu();
    EXPECT_FALSE(here.features.empty());
    EXPECT_EQ(3U, here.xcr0 & 3);
    EXPECT_EQ("", missing_in_cpu(saved_on(here), here));
}

TEST(Cpu, WhatIsMissingIsNamed)
{
    CpuFacts there = cpu_facts(new_cpu);
    CpuFacts here = cpu_facts(old_cpu);
    there.xcr0 = 0xe7;
    here.xcr0 = 0x7;
    EXPECT_EQ("avx2 avx512f registers:avx512", missing_in_cpu(saved_on(there), here));
    EXPECT_EQ("", missing_in_cpu(saved_on(here), there));
}

TEST(Cpu, ABaselineProgramNeedsItsRegistersOnly)
{
    CpuFacts there = cpu_facts(new_cpu);
    CpuFacts here = cpu_facts(old_cpu);
    there.xcr0 = here.xcr0 = 0x7;
    image::Cpu saved = saved_on(there);
    saved.baseline = true;
    EXPECT_EQ("", missing_in_cpu(saved, here));
    saved.xcr0 = 0xe7;
    EXPECT_EQ("registers:avx512", missing_in_cpu(saved, here));
}

} // namespace cryo::capture
