// SPDX-License-Identifier: Apache-2.0
#include "capture/shared_memory.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sys/mman.h>
#include <tuple>

namespace cryo::capture {

using image::ObjectKind;
using image::RegionKind;

SharedMappings::SharedMappings(Description &d) : d_(d)
{
    for (const Mapping &m : d.space.mappings) {
        if (m.kind == RegionKind::shared_anonymous)
            mappings_[{m.device, m.inode}]++;
    }
}

void SharedMappings::add_part(const Mapping &m, Contents &contents, uint64_t page)
{
    if (const auto [other, fresh] = d_.shared_by.emplace(m.inode, d_.proc.pid());
        !fresh && other->second != d_.proc.pid())
        d_.problems.add(
            fmt::format("memory at {:x}: shared with process {}", m.start, other->second),
            "no way yet");
    if (contents.object == 0)
        contents.object = d_.objects.take();
    contents.size = std::max(contents.size, page * 4096 + m.end - m.start);
    d_.shared.push_back({contents.object, page, m.start, m.end});
}

void SharedMappings::add(const Mapping &m, image::Region &region)
{
    const Key key(m.device, m.inode);
    if (m.kind == RegionKind::shared_anonymous && mappings_[key] == 1) {
        Contents &contents = contents_[key];
        contents.kind = ObjectKind::shared_memory;
        add_part(m, contents, 0);
        region.object = contents.object;
        region.object_page = 0;
        return;
    }
    if (m.kind == RegionKind::shared_anonymous) {
        // Mapped twice or in parts: only a file can be mapped so again, and one of memory will do.
        region.kind = RegionKind::memfd;
        region.file = d_.files.mapped("/memfd:shared memory", m.device, m.inode);
        region.file_offset = m.offset;
    }
    if (region.file == 0)
        return;
    image::File &file = d_.files.files()[region.file - 1];
    const auto known = contents_.find(key);
    if (file.object != 0 && known == contents_.end())
        return; // a descriptor leads to it
    const bool gone = m.deleted || (file.flags & image::kFileUnlinked) != 0;
    if (gone) {
        Contents &contents = contents_[key];
        contents.file = region.file;
        add_part(m, contents, m.offset / 4096);
        file.object = contents.object;
        file.flags |= image::kFileUnlinked | image::kFileContentsSaved;
    } else if (m.kind == RegionKind::shared_file && d_.options.save_shared &&
               (m.prot & PROT_WRITE) != 0) {
        Contents &contents = contents_[key];
        add_part(m, contents, m.offset / 4096);
        region.object = contents.object;
        region.object_page = m.offset / 4096;
    }
}

void SharedMappings::finish()
{
    for (const auto &[key, contents] : contents_) {
        image::Object object;
        object.id = contents.object;
        object.kind = contents.kind;
        object.size = contents.size;
        if (contents.file != 0)
            d_.files.files()[contents.file - 1].size = contents.size;
        d_.shared_objects.push_back(object);
    }
    std::sort(d_.shared.begin(), d_.shared.end(), [](const SharedPart &a, const SharedPart &b) {
        return std::tie(a.object, a.page) < std::tie(b.object, b.page);
    });
}

} // namespace cryo::capture
