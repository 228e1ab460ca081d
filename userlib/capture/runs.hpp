// SPDX-License-Identifier: Apache-2.0
//
// Pages in a row, and lists of them that ascend and do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cryo::capture {

struct Run {
    uint64_t start, end; // addresses
};

// What of `a` is not in `b`; what is in both; what is in any of them.
std::vector<Run> without(const std::vector<Run> &a, const std::vector<Run> &b);
std::vector<Run> common_part(const std::vector<Run> &a, const std::vector<Run> &b);
std::vector<Run> united(const std::vector<Run> &a, const std::vector<Run> &b);
// Such a list of any runs.
std::vector<Run> in_order(std::vector<Run> runs);
// Those between two addresses that none of them crosses.
std::vector<Run> inside(const std::vector<Run> &runs, uint64_t start, uint64_t end);
// Those of that part, cut off at its ends.
std::vector<Run> part_of(const std::vector<Run> &runs, const Run &part);
uint64_t size_of(const std::vector<Run> &runs); // bytes
// The program will stand still while lists as long as this one are made. To get the memory for them
// from the kernel, page by page, would take longer than all else that is done with them.
void have_memory_for_lists(size_t length);

} // namespace cryo::capture
