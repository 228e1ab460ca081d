// SPDX-License-Identifier: Apache-2.0
#include "image/wide_segment.hpp"

#include <algorithm>

namespace cryo::image {

namespace {

// Room for the head: all packages, and as many extents as large runs of pages need.
constexpr size_t wide_head = 12 * 1024;

bool fits(size_t packages, size_t extents)
{
    return packages <= kMaxSegmentPackages &&
           segment_tables(kMaxSegmentPackages, extents) <= wide_head;
}

} // namespace

// True if the batch holds whole packages that are not packed.
bool WideSegment::is_raw(const Batch &batch) const
{
    return !batch.packages.empty() && batch.stored == batch.packages.size() * package_bytes_ &&
           std::ranges::all_of(batch.packages, [&](const Package &p) {
               return p.codec == Codec::raw && p.stored == package_bytes_;
           });
}

bool WideSegment::begins_with(const Batch &batch) const
{
    const size_t full = kSegmentData / package_bytes_ * package_bytes_;
    return sink_.can_rewrite() && is_raw(batch) && batch.stored == full &&
           fits(2 * batch.packages.size(), batch.extents.size());
}

bool WideSegment::continues_with(const Batch &batch) const
{
    return batch.metadata.empty() && is_raw(batch) &&
           fits(open_->packages.size() + batch.packages.size(),
                open_->extents.size() + batch.extents.size());
}

Result<void> WideSegment::begin(const Batch &batch, uint64_t first_package)
{
    const uint64_t start = out_.offset();
    const size_t skip = start % kPageSize;
    const size_t pages = (skip + wide_head + kPageSize - 1) / kPageSize * kPageSize;
    open_ = {.start = start,
             .skip = skip,
             .head = pages - skip,
             .first_block = batch.first_block,
             .first_package = first_package};
    // The head is built where append() does not write.
    const MutableBytes place = out_.spare().first(pages);
    std::ranges::fill(place, uint8_t(0));
    std::ranges::copy(out_.begun_page(), place.begin());
    return out_.append(place.subspan(skip));
}

Result<void> WideSegment::add(Batch &batch)
{
    if (auto ok = out_.append_pages(batch.memory->data().first(batch.stored)); !ok)
        return ok;
    Open &wide = *open_;
    wide.stored += batch.stored;
    wide.packages.insert(wide.packages.end(), batch.packages.begin(), batch.packages.end());
    for (const Extent &e : batch.extents) {
        if (!wide.extents.empty() && wide.extents.back().continues_with(e))
            wide.extents.back().count += e.count;
        else
            wide.extents.push_back(e);
    }
    return {};
}

Result<void> WideSegment::end(IndexWriter &index)
{
    if (!open_)
        return {};
    Open wide = *std::exchange(open_, std::nullopt);
    const MutableBytes pages = out_.spare().first(wide.skip + wide.head);
    encode_wide_head({.offset = wide.start,
                      .first_block = wide.first_block,
                      .first_package = wide.first_package,
                      .packages = wide.packages,
                      .extents = wide.extents,
                      .data_size = wide.stored},
                     pages.subspan(wide.skip));
    if (auto ok = sink_.rewrite(wide.start - wide.skip, pages); !ok)
        return ok;
    index.add_segment({wide.start, wide.head + wide.stored}, wide.packages, wide.extents);
    return {};
}

} // namespace cryo::image
