// SPDX-License-Identifier: Apache-2.0
//
// What the restorer's flat binary and the code that places it (restore/enter.cpp) agree on.
//
// The area, one mapping outside all others: | plan | code | scratch | stacks of the threads |
#pragma once

#include "restore/plan.hpp"

#include <cstdint>

namespace cryo::restore {

constexpr uint64_t stack_size = 16384; // of each thread, until it resumes
constexpr uint64_t scratch_size = 65536 + max_slots * 8;

} // namespace cryo::restore
