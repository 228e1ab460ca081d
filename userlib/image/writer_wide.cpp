// SPDX-License-Identifier: Apache-2.0
//
// Wide segments. Memory that is stored raw should be contiguous in the file as far as possible, so
// that a lazy restart needs few mappings for it: consecutive segments are joined into one, whose
// head is written when all of its packages are known. A sink that cannot rewrite pages gets no
// wide segments.
#include <algorithm>
#include <cassert>

#include "image/writer.hpp"

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
bool ImageWriter::is_raw(const Batch &batch) const
{
    return !batch.packages.empty() &&
           batch.stored == batch.packages.size() * header_.package_bytes() &&
           std::ranges::all_of(batch.packages, [&](const Package &p) {
               return p.codec == Codec::raw && p.stored == header_.package_bytes();
           });
}

bool ImageWriter::begins_wide(const Batch &batch) const
{
    return sink_->can_rewrite() && is_raw(batch) && batch.stored == capacity() * kPageSize &&
           fits(2 * batch.packages.size(), batch.extents.size());
}

bool ImageWriter::continues_wide(const Batch &batch) const
{
    return batch.metadata.empty() && is_raw(batch) &&
           fits(wide_->packages.size() + batch.packages.size(),
                wide_->extents.size() + batch.extents.size());
}

Result<void> ImageWriter::begin_wide(const Batch &batch)
{
    const uint64_t start = out_.offset();
    const size_t skip = start % kPageSize;
    const size_t pages = (skip + wide_head + kPageSize - 1) / kPageSize * kPageSize;
    wide_ = {.start = start,
             .skip = skip,
             .head = pages - skip,
             .first_block = batch.first_block,
             .first_package = footer_.packages};
    // The head is built where append() does not write.
    const MutableBytes place = out_.spare().first(pages);
    std::ranges::fill(place, uint8_t(0));
    std::ranges::copy(out_.begun_page(), place.begin());
    return out_.append(place.subspan(skip));
}

Result<void> ImageWriter::widen(Batch &batch)
{
    if (auto ok = out_.append_pages(batch.memory->data().first(batch.stored)); !ok)
        return ok;
    Wide &wide = *wide_;
    wide.stored += batch.stored;
    wide.packages.insert(wide.packages.end(), batch.packages.begin(), batch.packages.end());
    for (const Extent &e : batch.extents) {
        if (!wide.extents.empty() && wide.extents.back().continues_with(e))
            wide.extents.back().count += e.count;
        else
            wide.extents.push_back(e);
    }
    footer_.packages += batch.packages.size();
    footer_.stored += batch.stored;
    return {};
}

Result<void> ImageWriter::end_wide()
{
    if (!wide_)
        return {};
    Wide wide = *std::exchange(wide_, std::nullopt);
    const MutableBytes pages = out_.spare().first(wide.skip + wide.head);
    encode_wide_head({.offset = wide.start,
                      .first_block = wide.first_block,
                      .first_package = wide.first_package,
                      .packages = wide.packages,
                      .extents = wide.extents,
                      .data_size = wide.stored},
                     pages.subspan(wide.skip));
    if (auto ok = sink_->rewrite(wide.start - wide.skip, pages); !ok)
        return ok;
    index_.add_segment({wide.start, wide.head + wide.stored}, wide.packages, wide.extents);
    return index_.full() ? index_.write_part(out_, table_packer_) : Result<void>();
}

} // namespace cryo::image
