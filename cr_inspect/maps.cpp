// SPDX-License-Identifier: Apache-2.0
#include "rows.hpp"
#include "views.hpp"

namespace cryo::inspect {

using namespace cryo::image;

void show_maps(const Entry &entry, const Output &out)
{
    Columns table({Align::left, Align::left, Align::right, Align::right, Align::right, Align::left,
                   Align::left});
    table.add({"address", "prot", "offset", "size", "present", "stored", "what"});
    MappingSum total;
    for (const MappingRow &row : mapping_rows(entry.about)) {
        const Region &r = row.region;
        table.add({fmt::format("{:012x}-{:012x}", r.start, r.end), protection_text(r),
                   fmt::format("{:x}", r.file_offset), pages_text(region_pages(r)),
                   pages_text(r.present), stored_text(row.stored), row.what});
        total.add(row);
    }
    table.add({"total", "", "", pages_text(total.size), pages_text(total.present),
               stored_text(total.stored), ""});
    out.print("{}\n{}", out.bold(printable(entry.name)), table.text(2));
}

} // namespace cryo::inspect
