// SPDX-License-Identifier: Apache-2.0
#include "image/segment_builder.hpp"

#include "image/zero_page.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace cryo::image {

bool SegmentBuilder::extend(const Extent &extent)
{
    if (extents_.empty() || !extents_.back().continues_with(extent))
        return false;
    extents_.back().count += extent.count;
    return true;
}

MutableBytes SegmentBuilder::space(uint64_t want) const
{
    // Each page may need an extent of its own, if every other one is zero.
    size_t pages = std::min({capacity() - blocks_, kMaxSegmentExtents - extents_.size(),
                             size_t(std::min<uint64_t>(want, capacity()))});
    return memory_->data().subspan(blocks_ * kPageSize, pages * kPageSize);
}

void SegmentBuilder::take(uint32_t object, uint64_t first_page, uint64_t count)
{
    assert(memory_ && count <= capacity() - blocks_);
    uint8_t *from = memory_->data().data() + blocks_ * kPageSize;
    for (uint64_t i = 0; i < count; i++, from += kPageSize) {
        Extent e{object, ExtentKind::data, first_page + i, 1, first_block_ + blocks_};
        if (options_.find_zero_pages && is_zero_page(from)) {
            e.kind = ExtentKind::zero;
            e.source = 0;
        } else {
            uint8_t *to = memory_->data().data() + blocks_ * kPageSize;
            if (to != from)
                memcpy(to, from, kPageSize);
            blocks_++;
            if (options_.may_be_raw && blocks_ % options_.package_blocks == 0)
                raw_checksums_.push_back(checksum128(memory_->data().subspan(
                    blocks_ * kPageSize - package_bytes(), package_bytes())));
        }
        if (!extend(e))
            add(e);
    }
}

Batch SegmentBuilder::cut(bool last, std::unique_ptr<SegmentMemory> next)
{
    const size_t moved = kept(last);
    const size_t blocks = blocks_ - moved;
    const uint64_t end = first_block_ + blocks;
    Batch batch{.memory = nullptr,
                .bytes = blocks * kPageSize,
                .first_block = first_block_,
                .raw_checksums = std::exchange(raw_checksums_, {})};
    std::vector<Extent> rest;
    for (Extent &e : extents_) {
        if (e.kind != ExtentKind::data || e.source + e.count <= end) {
            batch.extents.push_back(e);
            continue;
        }
        if (e.source < end) {
            uint64_t before = end - e.source;
            batch.extents.push_back({e.object, e.kind, e.page, before, e.source});
            e = {e.object, e.kind, e.page + before, e.count - before, end};
        }
        rest.push_back(e);
    }
    if (moved && blocks) {
        memcpy(next->data().data(), memory_->data().data() + blocks * kPageSize, moved * kPageSize);
        batch.memory = std::exchange(memory_, std::move(next));
    } else if (blocks) {
        batch.memory = std::move(memory_);
    }
    blocks_ = moved;
    first_block_ = end;
    extents_ = std::move(rest);
    return batch;
}

Batch SegmentBuilder::placed(uint32_t object, std::span<const PageRun> runs)
{
    Batch segment{.first_block = first_block_};
    for (const PageRun &run : runs) {
        const Extent extent = {object, ExtentKind::data, run.page, run.count, first_block_};
        if (!segment.extents.empty() && segment.extents.back().continues_with(extent))
            segment.extents.back().count += run.count;
        else
            segment.extents.push_back(extent);
        first_block_ += run.count;
    }
    const uint64_t blocks = first_block_ - segment.first_block;
    segment.bytes = segment.stored = blocks * kPageSize;
    segment.packages.resize(blocks / options_.package_blocks);
    for (Package &p : segment.packages)
        p.stored = uint32_t(package_bytes());
    return segment;
}

} // namespace cryo::image
