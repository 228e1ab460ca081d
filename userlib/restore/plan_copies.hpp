// SPDX-License-Identifier: Apache-2.0
//
// Restores processes as copies of their parents, as fork() made them, so that pages which parent
// and child share take memory once. The parent's restorer makes such a process when its own memory
// is filled; the copy keeps what is alike, and gets the pages that differ.
//
//     choose_copies(tree, saved, options);     // once, before any file is opened
//     Result<KeptMemory> kept = compare_with_parent(child, saved, parent, its_saved);
#pragma once

#include "look/runs.hpp"
#include "restore/plan_parts.hpp"

#include <span>

namespace cryo::restore {

// What a copy has from its parent: address ranges, ascending.
struct KeptMemory {
    // Mapped as in the parent: the beginning of a region, or all of it. A part further on would
    // stay a mapping of its own, which the program could not grow by mremap().
    std::vector<capture::Run> kept;
    // Regions of which only the first part is kept.
    struct Grown {
        uint64_t start, kept_end, end;
    };
    std::vector<Grown> grown;
    std::vector<capture::Run> emptied; // where only the parent has contents of its own
    std::vector<capture::Run> changed; // where the copy has other contents
};

// Decides which processes are copies, and gives them the descriptors that are handed down to them.
// `saved`: of each process, by number; null for one without a plan.
Result<void> choose_copies(TreePlan &tree, std::span<const Saved *const> saved,
                           const RestartOptions &options);

Result<KeptMemory> compare_with_parent(image::Image &image, const Saved &saved,
                                       image::Image &parent, const Saved &parents);

// Whether the region is not mapped anew.
bool is_kept(const Planning &p, const image::Region &region);
// What of these parts with contents must be sent.
std::vector<Range> to_be_sent(const Planning &p, const image::Region &region,
                              const std::vector<Range> &parts);

// Operations: giving up all memory that is not kept; growing what is, where the copy has more;
// emptying kept pages; making the own copies.
void plan_keeping(Planning &p);
void plan_growing(Planning &p);
void plan_emptying(Planning &p);
void plan_making_copies(Planning &p);

} // namespace cryo::restore
