// SPDX-License-Identifier: Apache-2.0
//
// Which pages of two images differ, region by region and object by object.
//
//     auto found = compare_pages(*a, about_a, *b, about_b);
//     for (const PageDifference &d : *found)
//         print("{}: {} of {} pages", d.where, d.different, d.compared);
//
// Objects are paired by their number. A page that neither image holds comes from its backing in
// both, and is not compared; a page of a mapped file that only one holds counts as different.
#pragma once

#include "description.hpp"

namespace cryo::inspect {

struct PageRange {
    uint64_t first = 0;
    uint64_t count = 0;
};

struct PageDifference {
    std::string where = {};
    bool memory = false;    // pages are numbered by address
    uint64_t compared = 0;  // pages that at least one image holds
    uint64_t different = 0; // of these
    std::vector<PageRange> ranges = {};
};

// Only regions and objects that differ somewhere.
Result<std::vector<PageDifference>> compare_pages(image::Image &a, const Description &about_a,
                                                  image::Image &b, const Description &about_b);

} // namespace cryo::inspect
