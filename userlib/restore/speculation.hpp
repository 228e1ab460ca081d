// SPDX-License-Identifier: Apache-2.0
//
// What a restart does for a thread's speculation control (PR_SET_SPECULATION_CTRL), of which the
// CPU, the kernel's options and cr_restart's surroundings may leave no choice.
//
//     const SpeculationChoice choice = choose_speculation(which, saved, here);
//     if (choice.set != 0) …                // prctl(PR_SET_SPECULATION_CTRL, which, choice.set)
//     if (!choice.obstacle.empty()) …       // it is another one than before
#pragma once

#include <cstdint>
#include <string_view>

namespace cryo::restore {

struct SpeculationChoice {
    uint32_t set = 0; // PR_SPEC_ENABLE, …; 0: nothing
    std::string_view obstacle;
};

// `saved` and `here`: as PR_GET_SPECULATION_CTRL tells it, 0 if not at all.
SpeculationChoice choose_speculation(unsigned which, uint32_t saved, uint32_t here);

} // namespace cryo::restore
