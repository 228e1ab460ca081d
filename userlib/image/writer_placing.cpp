// SPDX-License-Identifier: Apache-2.0
//
// Pages that the caller has placed in the image's file directly. All positions follow from the
// number of pages and runs, so heads of segments and parts of the index, which hold checksums,
// are left out at first and written when the checksums are known.
#include <algorithm>
#include <cassert>
#include <cerrno>
#include <fcntl.h>

#include "image/writer.hpp"

namespace cryo::image {

namespace {

// The tables are not packed, as their length must be known before their checksums.
SegmentToWrite placed_segment(Batch &segment, uint64_t start, uint64_t first_package)
{
    return {.offset = start,
            .first_block = segment.first_block,
            .first_package = first_package,
            .packages = segment.packages,
            .extents = segment.extents,
            .data_size = segment.stored};
}

} // namespace

// Waits until the output stage is idle; the caller's thread owns its state until check_placed().
Result<void> ImageWriter::begin_placing()
{
    if (before_placing() != 0)
        return Error(EINVAL, "pages cannot be placed behind an incomplete package");
    if (auto ok = seal(false); !ok)
        return ok;
    if (auto ok = pipeline_->drain(); !ok)
        return ok;
    if (auto ok = output_.end_segment(); !ok)
        return ok;
    sink_->placeable()->begin();
    if (auto ok = output_.buffer().write_all(); !ok)
        return ok;
    layout_ = output_.index().next();
    return {};
}

Result<uint64_t> ImageWriter::place_pages(uint32_t object, std::span<const PageRun> runs)
{
    uint64_t blocks = 0;
    for (const PageRun &run : runs) {
        if (auto ok = ready(run.page, run.count); !ok)
            return ok.error();
        blocks += run.count;
    }
    if (place() == nullptr || blocks == 0 || blocks > capacity() || runs.size() > placed_runs ||
        blocks % header_.package_blocks != 0)
        return Error(EINVAL, "these pages cannot be placed");
    if (!layout_ || blocks_ != 0) { // pages taken before come first
        if (auto ok = begin_placing(); !ok) {
            failed_ = ok.error();
            return ok.error();
        }
    }
    Placed placed = {
        .start = output_.buffer().offset(), .first_package = output_.packages(), .segment = {}};
    Batch &segment = placed.segment;
    segment.first_block = first_block_;
    segment.bytes = segment.stored = blocks * kPageSize;
    segment.packages.resize(blocks / header_.package_blocks);
    for (Package &p : segment.packages)
        p.stored = uint32_t(header_.package_bytes());
    for (const PageRun &run : runs) {
        const Extent extent = {object, ExtentKind::data, run.page, run.count, first_block_};
        if (!segment.extents.empty() && segment.extents.back().continues_with(extent))
            segment.extents.back().count += run.count;
        else
            segment.extents.push_back(extent);
        first_block_ += run.count;
    }
    uint8_t head[kMaxSegmentHead];
    const size_t size =
        encode_segment_head(placed_segment(segment, placed.start, placed.first_package), head);
    output_.buffer().skip(size + segment.stored);
    output_.count(segment.packages.size(), segment.stored);
    blocks_in_.fetch_add(blocks, std::memory_order_relaxed);
    layout_->add_segment({placed.start, size + segment.stored}, segment.packages, segment.extents);
    placed.has_part = layout_->full();
    if (placed.has_part) {
        auto part = layout_->take();
        if (!part) {
            failed_ = part.error();
            return part.error();
        }
        output_.buffer().skip(kPrefixSize + part->size());
    }
    placed_.push_back(std::move(placed));
    return placed_.back().start + size;
}

Result<void> ImageWriter::check_placed()
{
    if (!layout_)
        return {};
    const PlaceableFile &file = *place();
    layout_.reset();
    Result<void> ok;
    for (Placed &placed : std::exchange(placed_, {})) {
        if (ok)
            ok = check_segment(placed.segment, placed.start, placed.first_package);
        if (!ok || !placed.has_part)
            continue;
        const uint64_t at = placed.segment.packages.back().offset + header_.package_bytes();
        auto payload = output_.index().take_part(at);
        if (!payload) {
            ok = payload.error();
            continue;
        }
        RecordPrefix prefix{
            .type = RecordType::index_part, .flags = kRequired, .length = payload->size()};
        const auto encoded = prefix.encode(*payload);
        output_.buffer().covered().add(encoded);
        output_.buffer().covered().add(*payload);
        ok = file.write_at(at, encoded);
        if (ok)
            ok = file.write_at(at + kPrefixSize, *payload);
    }
    if (ok)
        ok = output_.buffer().resume(file);
    if (!ok)
        failed_ = ok.error();
    return ok;
}

Result<void> ImageWriter::check_segment(Batch &segment, uint64_t start, uint64_t first_package)
{
    const PlaceableFile &file = *place();
    const MutableBytes data = output_.buffer().memory().first(segment.stored);
    const uint64_t at = segment.packages.front().offset;
    if (auto ok = file.read_at(at, data); !ok)
        return ok;
    for (size_t i = 0; i < segment.packages.size(); i++)
        segment.packages[i].checksum =
            checksum128(data.subspan(i * header_.package_bytes(), header_.package_bytes()));
    if (options_.find_zero_pages)
        make_holes(data, at);
    uint8_t head[kMaxSegmentHead];
    const size_t size = encode_segment_head(placed_segment(segment, start, first_package), head);
    assert(start + size == at);
    if (auto ok = file.write_at(start, Bytes(head).first(size)); !ok)
        return ok;
    output_.index().add_segment({start, size + segment.stored}, segment.packages, segment.extents);
    return {};
}

// Zero pages are part of packages here; punches holes so that they need no space on the disk.
void ImageWriter::make_holes(Bytes pages, uint64_t offset) const
{
    const uint64_t least = place()->least_hole();
    for (size_t from = 0; from < pages.size();) {
        size_t end = from;
        while (end < pages.size() && is_zero_page(pages.data() + end))
            end += kPageSize;
        if (end > from && end - from >= least)
            fallocate(place()->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      off_t(offset + from), off_t(end - from));
        from = end + kPageSize;
    }
}

} // namespace cryo::image
