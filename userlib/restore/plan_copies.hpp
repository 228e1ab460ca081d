// SPDX-License-Identifier: Apache-2.0
//
// Processes that come back as copies of their parents, as fork() has made them, so that pages which
// parent and child had in common take memory once. The parent's restorer makes such a process when
// its own memory is filled; the copy keeps what is alike, and gets the pages that differ.
//
//     choose_copies(tree, saved, options);     // once, before any file is opened
//     Result<KeptMemory> kept = compare_with_parent(child, saved, parent, its_saved);
#pragma once

#include "restore/plan_parts.hpp"

#include <span>

namespace cryo::restore {

// What a copy has from its parent: address ranges, ascending.
struct KeptMemory {
    std::vector<Range> kept;    // mapped as in the parent
    std::vector<Range> emptied; // of these: where only the parent has contents of its own
    std::vector<Range> changed; // of these: where the copy has other contents
};

// Decides which processes are copies, and gives them the descriptors that are handed down to them.
// `saved`: of each process, by number; null for one without a plan.
Result<void> choose_copies(TreePlan &tree, std::span<const Saved *const> saved,
                           const RestartOptions &options);

Result<KeptMemory> compare_with_parent(image::Image &image, const Saved &saved,
                                       image::Image &parent, const Saved &parents);

// Stretches, and parts with contents, without what is kept.
std::vector<Stretch> not_kept(const Planning &p, const std::vector<Stretch> &stretches);
std::vector<Range> not_kept(const Planning &p, const image::Region &region,
                            const std::vector<Range> &parts);

// Operations: giving up all memory that is not kept; emptying kept pages; making the own copies.
void plan_keeping(Planning &p);
void plan_emptying(Planning &p);
void plan_making_copies(Planning &p);

} // namespace cryo::restore
