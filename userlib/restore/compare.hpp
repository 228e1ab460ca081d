// SPDX-License-Identifier: Apache-2.0
//
// Checks that a restored process that has not run yet matches its image. It is
// examined from outside, through /proc and ptrace, so that the result is the
// kernel's account of the process and not what the restart believes it has done.
//
//     Comparison one{*process.image, *first.image, *process.saved, *process.plan, pid};
//     if (Result<void> same = compare(one); !same)
//         // same.error() names the first difference
//
// The caller is an ancestor of the process, in the same pid namespace.
#pragma once

#include "base/result.hpp"
#include "look/proc.hpp"
#include "resources/differences.hpp"
#include "restore/planner.hpp"

#include <functional>
#include <string>

namespace cryo::restore {

struct Comparison {
    image::Image &image;
    image::Image &first; // the tree's first image, which has the shared objects
    const Saved &saved;
    const RestartPlan &plan;
    pid_t pid;
    const Newborn &kin;
    std::function<void(uint64_t bytes)> moved = {}; // reports bytes of memory compared

    capture::Proc proc() const { return capture::Proc(pid); }
};

Result<void> compare(const Comparison &c);

// Refuses a rehearsal that needs more memory than is available.
Result<void> check_room(uint64_t bytes);

// compare_memory.cpp: the mappings, and their contents as far as the image has them.
Result<void> compare_memory(const Comparison &c);
// compare_process.cpp: ids, names, privileges, limits, signals, timers.
Result<void> compare_process(const Comparison &c);
// Compares the signals pending for thread `tid`; 0: those pending for the process.
Result<void> compare_pending(const Comparison &c, uint32_t tid, std::string_view status);
// compare_threads.cpp: the state that each thread has of its own.
Result<void> compare_threads(const Comparison &c);
// compare_descriptors.cpp
Result<void> compare_descriptors(const Comparison &c);

using resources::difference;
using resources::same_hex;
using resources::same_line;
using resources::same_number;
using resources::same_text;

} // namespace cryo::restore
