// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/mapped_images.hpp"

#include "image/base_finder.hpp"

#include <sys/stat.h>

namespace cryo::capture {

void MappedImages::look(std::string_view smaps)
{
    const std::scoped_lock alone(busy_);
    for_each_mapping(smaps, [&](const Mapping &mapping) {
        Mapping m = mapping;
        if (m.shared || m.inode == 0 || !m.path.starts_with('/'))
            return;
        m.kind = image::RegionKind::private_file;
        has(m);
    });
}

bool MappedImages::has(const Mapping &m)
{
    if (m.kind != image::RegionKind::private_file || m.deleted)
        return false;
    const auto [found, fresh] = known_.emplace(std::pair(m.device, m.inode), false);
    struct stat now;
    if (fresh && stat(m.path.c_str(), &now) == 0 && now.st_ino == m.inode)
        found->second = image::id_of_file(m.path).has_value();
    return found->second;
}

} // namespace cryo::capture
