// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <sys/mman.h>

#include "views.hpp"

namespace cryo::inspect {

using namespace cryo::image;

namespace {

std::string protection(const Region &r)
{
    return fmt::format("{}{}{}{}", r.prot & PROT_READ ? 'r' : '-', r.prot & PROT_WRITE ? 'w' : '-',
                       r.prot & PROT_EXEC ? 'x' : '-', r.flags & kRegionShared ? 's' : 'p');
}

std::string stored_text(const PageCounts &pages)
{
    std::string out = pages.data ? pages_text(pages.data) : "-";
    if (pages.zero)
        out += fmt::format(" + {} zero", pages_text(pages.zero));
    if (pages.base)
        out += fmt::format(" + {} in base", pages_text(pages.base));
    return out;
}

std::string name_in_map(const Region &r, const std::map<uint32_t, File> &files)
{
    if (auto file = files.find(r.file); r.file && file != files.end()) {
        const File &f = file->second;
        return printable(f.path.empty() ? f.link : f.path) +
               (f.flags & kFileUnlinked ? " (deleted)" : "");
    }
    switch (r.kind) {
    case RegionKind::anonymous:
        return r.name.empty() ? "" : fmt::format("[anon:{}]", printable(r.name));
    case RegionKind::heap:
    case RegionKind::stack:
    case RegionKind::vdso:
    case RegionKind::vvar:
        return fmt::format("[{}]", name_of(r.kind));
    default:
        return fmt::format("[{}{}{}]", name_of(r.kind), r.name.empty() ? "" : ":",
                           printable(r.name));
    }
}

} // namespace

void show_maps(const Entry &entry, const Output &out)
{
    const Description &about = entry.about;
    std::map<uint32_t, File> files;
    for (const File &f : about.all<File>())
        files[f.id] = f;
    Columns table({Align::left, Align::left, Align::right, Align::right, Align::right, Align::left,
                   Align::left});
    table.add({"address", "prot", "offset", "size", "present", "stored", "what"});
    uint64_t size = 0;
    uint64_t present = 0;
    PageCounts stored;
    for (const Region &r : about.all<Region>()) {
        PageCounts here = about.pages_of(r);
        table.add({fmt::format("{:012x}-{:012x}", r.start, r.end), protection(r),
                   fmt::format("{:x}", r.file_offset), pages_text(region_pages(r)),
                   pages_text(r.present), stored_text(here), name_in_map(r, files)});
        size += region_pages(r);
        present += r.present;
        stored.data += here.data;
        stored.zero += here.zero;
        stored.base += here.base;
    }
    table.add({"total", "", "", pages_text(size), pages_text(present), stored_text(stored), ""});
    out.print("{}\n{}", out.bold(printable(entry.name)), table.text(2));
}

} // namespace cryo::inspect
