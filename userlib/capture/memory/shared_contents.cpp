// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/shared_contents.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace cryo::capture {

namespace {

uint64_t pages_of(const Mapping &m)
{
    return (m.end - m.start) / image::kPageSize;
}

// Whether `next` does not continue the file range of its neighbour.
bool is_break(const Mapping &m, const Mapping &next)
{
    return next.offset != m.offset + (m.end - m.start);
}

} // namespace

void SharedContents::count(const AddressSpace &space)
{
    for (const Mapping &m : space.mappings) {
        if (m.kind != image::RegionKind::shared_anonymous)
            continue;
        Mapped &all = mapped_[key_of(m)];
        all.mappings++;
        const uint64_t first = m.offset / image::kPageSize;
        for (const auto &[from, to] : take(all.parts, first, first + pages_of(m)))
            all.pages += to - from;
    }
}

// Neighbours out of order that have more room than pages exist: some page is mapped twice, and
// another one perhaps nowhere. A few mappings of the whole memory each are copies (mremap).
void SharedContents::refuse_hidden(const AddressSpace &space, Problems &problems) const
{
    constexpr size_t few = 4;
    const std::vector<Mapping> &all = space.mappings;
    for (size_t i = 0; i < all.size();) {
        const Mapping &first = all[i];
        const auto found = mapped_.find(key_of(first));
        if (first.kind != image::RegionKind::shared_anonymous || found == mapped_.end()) {
            i++;
            continue;
        }
        bool in_order = true, copies = true;
        uint64_t room = 0;
        size_t next = i;
        do {
            in_order = in_order && (next == i || !is_break(all[next - 1], all[next]));
            copies = copies && pages_of(all[next]) == found->second.pages;
            room += pages_of(all[next]);
            next++;
        } while (next < all.size() && all[next].start == all[next - 1].end &&
                 all[next].kind == first.kind && key_of(all[next]) == key_of(first));
        if (!in_order && room > found->second.pages && !(copies && next - i <= few))
            problems.add(
                fmt::format("memory at {:x}: shared memory that remap_file_pages has put "
                            "in another order, a part of which is not mapped at the moment",
                            first.start),
                "map it by a descriptor that stays open (memfd_create)", Passing::soon);
        i = next;
    }
}

bool SharedContents::is_mapped_once(const Mapping &m) const
{
    const auto found = mapped_.find(key_of(m));
    return m.kind == image::RegionKind::shared_anonymous && found != mapped_.end() &&
           found->second.mappings == 1;
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
