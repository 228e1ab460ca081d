// SPDX-License-Identifier: Apache-2.0
//
// Contiguous pages, and ascending lists of them that do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cryo::capture {

struct Run {
    uint64_t start, end; // addresses
};

// The difference of `a` and `b`; their intersection; their union.
std::vector<Run> without(const std::vector<Run> &a, const std::vector<Run> &b);
std::vector<Run> common_part(const std::vector<Run> &a, const std::vector<Run> &b);
std::vector<Run> united(const std::vector<Run> &a, const std::vector<Run> &b);
// Makes such a list from arbitrary runs.
std::vector<Run> in_order(std::vector<Run> runs);
// The runs between two addresses, if no run crosses either of them.
std::vector<Run> inside(const std::vector<Run> &runs, uint64_t start, uint64_t end);
// The runs within `part`, clipped to it.
std::vector<Run> part_of(const std::vector<Run> &runs, const Run &part);
uint64_t size_of(const std::vector<Run> &runs); // bytes
// Allocates memory for lists this long before the stop: getting it from the kernel page by page in
// the stop would take longer than everything else that is done with the lists.
void have_memory_for_lists(size_t length);

} // namespace cryo::capture
