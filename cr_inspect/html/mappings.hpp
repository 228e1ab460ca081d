// SPDX-License-Identifier: Apache-2.0
//
// The memory of a process on a page: a map, sums by kind, and the mappings with most pages in the
// image; the other mappings are summed up by what they map.
//
//     show_memory(page, limits, about);
#pragma once

#include "html/pieces.hpp"
#include "rows.hpp"

namespace cryo::inspect {

void show_memory(Html &page, const PageLimits &limits, const Description &about);

} // namespace cryo::inspect
