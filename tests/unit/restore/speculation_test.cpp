// SPDX-License-Identifier: Apache-2.0
#include "restore/speculation.hpp"

#include <gtest/gtest.h>
#include <linux/prctl.h>

namespace cryo::restore {
namespace {

constexpr uint32_t on = PR_SPEC_PRCTL | PR_SPEC_ENABLE, off = PR_SPEC_PRCTL | PR_SPEC_DISABLE,
                   off_for_good = PR_SPEC_PRCTL | PR_SPEC_FORCE_DISABLE;

void expect(uint32_t set, bool is_said, unsigned which, uint32_t saved, uint32_t here)
{
    const SpeculationChoice choice = choose_speculation(which, saved, here);
    EXPECT_EQ(set, choice.set) << which << " " << saved << " " << here;
    EXPECT_EQ(is_said, !choice.obstacle.empty()) << which << " " << saved << " " << here;
}

TEST(Speculation, IsLeftAloneWhereItIsAsUsual)
{
    expect(0, false, PR_SPEC_STORE_BYPASS, on, on);
    expect(0, false, PR_SPEC_L1D_FLUSH, off, off);
    expect(0, false, PR_SPEC_STORE_BYPASS, 0, on);
    expect(0, false, PR_SPEC_STORE_BYPASS, PR_SPEC_DISABLE, on);
    expect(0, false, PR_SPEC_INDIRECT_BRANCH, on, PR_SPEC_ENABLE);
}

TEST(Speculation, IsAsTheProgramHasChosen)
{
    expect(PR_SPEC_DISABLE, false, PR_SPEC_STORE_BYPASS, off, on);
    expect(PR_SPEC_FORCE_DISABLE, false, PR_SPEC_INDIRECT_BRANCH, off_for_good, on);
    expect(PR_SPEC_FORCE_DISABLE, false, PR_SPEC_INDIRECT_BRANCH, off_for_good, off_for_good);
    expect(PR_SPEC_DISABLE_NOEXEC, false, PR_SPEC_STORE_BYPASS,
           PR_SPEC_PRCTL | PR_SPEC_DISABLE_NOEXEC, on);
    expect(PR_SPEC_ENABLE, false, PR_SPEC_STORE_BYPASS, on, off); // cr_restart's surroundings
    expect(PR_SPEC_ENABLE, false, PR_SPEC_L1D_FLUSH, on, off);
}

TEST(Speculation, SaysWhatItCannotDo)
{
    expect(0, true, PR_SPEC_STORE_BYPASS, off, 0);
    expect(0, true, PR_SPEC_STORE_BYPASS, off, PR_SPEC_ENABLE);
    expect(0, true, PR_SPEC_STORE_BYPASS, on, off_for_good);
}

} // namespace
} // namespace cryo::restore
