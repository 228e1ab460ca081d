// SPDX-License-Identifier: Apache-2.0
//
// A picture of an address space. Mappings that lie near each other share a strip, whose columns
// have one width; a column has the colour of what most of it is used for, and below, how much of
// its pages is in the image. So every mapping is seen, however many there are, and the picture has
// at most so many columns.
//
//     for (const MapStrip &strip : lay_out(about, mapping_rows(about), 500))
//         draw(page, strip);
#pragma once

#include <array>
#include <span>

#include "html/writer.hpp"
#include "rows.hpp"

namespace cryo::inspect {

enum class Use { code, file, heap, stack, anonymous, shared, reserved, other };
inline constexpr size_t kUses = 8;

Use use_of(const image::Region &region);

struct MapColumn {
    std::array<uint64_t, kUses> bytes = {}; // mapped, by use
    uint64_t mappings = 0;
    const MappingRow *largest = nullptr; // here
    uint64_t largest_bytes = 0;
    uint64_t pages = 0; // mapped
    PageCounts stored = {};

    bool empty() const { return mappings == 0; }
    Use use() const; // of most bytes
};

struct MapStrip {
    uint64_t start = 0;
    uint64_t end = 0;   // of the last mapping
    uint64_t width = 0; // bytes of a column
    MappingSum sum = {};
    std::vector<MapColumn> columns = {};
};

// The strips refer to the rows.
std::vector<MapStrip> lay_out(const Description &about, std::span<const MappingRow> rows,
                              size_t most_columns);

void draw(Html &page, const MapStrip &strip);
void draw_legend(Html &page);

} // namespace cryo::inspect
