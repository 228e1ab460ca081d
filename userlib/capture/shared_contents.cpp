// SPDX-License-Identifier: Apache-2.0
#include "capture/shared_contents.hpp"

#include <algorithm>
#include <iterator>

namespace cryo::capture {

void SharedContents::count(const AddressSpace &space)
{
    for (const Mapping &m : space.mappings) {
        if (m.kind == image::RegionKind::shared_anonymous)
            mappings_[key_of(m)]++;
    }
}

bool SharedContents::is_mapped_once(const Mapping &m) const
{
    const auto found = mappings_.find(key_of(m));
    return m.kind == image::RegionKind::shared_anonymous && found != mappings_.end() &&
           found->second == 1;
}

SharedContents::Contents *SharedContents::find(const Mapping &m)
{
    const auto found = all_.find(key_of(m));
    return found != all_.end() ? &found->second : nullptr;
}

std::vector<SharedContents::Pages> SharedContents::take(Contents &contents, uint64_t begin,
                                                        uint64_t end)
{
    std::vector<Pages> fresh;
    uint64_t at = begin;
    auto next = contents.taken.upper_bound(begin);
    if (next != contents.taken.begin())
        at = std::max(at, std::prev(next)->second);
    for (; next != contents.taken.end() && next->first < end; ++next) {
        if (at < next->first)
            fresh.emplace_back(at, next->first);
        at = std::max(at, next->second);
    }
    if (at < end)
        fresh.emplace_back(at, end);
    for (const auto &[from, to] : fresh)
        contents.taken.emplace(from, to);
    return fresh;
}

} // namespace cryo::capture
