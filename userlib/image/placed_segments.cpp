// SPDX-License-Identifier: Apache-2.0
#include "image/placed_segments.hpp"

#include "image/zero_page.hpp"

#include <cassert>
#include <fcntl.h>
#include <utility>

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

Result<void> PlacedSegments::begin()
{
    if (auto ok = output_.end_segment(); !ok)
        return ok;
    file_.begin();
    if (auto ok = output_.buffer().write_all(); !ok)
        return ok;
    layout_ = output_.index().next();
    return {};
}

Result<uint64_t> PlacedSegments::add(Batch batch)
{
    Placed placed = {.start = output_.buffer().offset(),
                     .first_package = output_.packages(),
                     .segment = std::move(batch)};
    Batch &segment = placed.segment;
    uint8_t head[kMaxSegmentHead];
    const size_t size =
        encode_segment_head(placed_segment(segment, placed.start, placed.first_package), head);
    output_.buffer().skip(size + segment.stored);
    output_.count(segment.packages.size(), segment.stored);
    layout_->add_segment({placed.start, size + segment.stored}, segment.packages, segment.extents);
    placed.has_part = layout_->full();
    if (placed.has_part) {
        auto part = layout_->take();
        if (!part)
            return part.error();
        output_.buffer().skip(kPrefixSize + part->size());
    }
    placed_.push_back(std::move(placed));
    return placed_.back().start + size;
}

Result<void> PlacedSegments::check()
{
    if (!layout_)
        return {};
    layout_.reset();
    Result<void> ok;
    for (Placed &placed : std::exchange(placed_, {})) {
        if (ok)
            ok = check_segment(placed);
        if (ok && placed.has_part)
            ok = write_index_part(placed);
    }
    return ok ? output_.buffer().resume(file_) : ok;
}

Result<void> PlacedSegments::check_segment(Placed &placed)
{
    Batch &segment = placed.segment;
    const MutableBytes data = output_.buffer().memory().first(segment.stored);
    const uint64_t at = segment.packages.front().offset;
    if (auto ok = file_.read_at(at, data); !ok)
        return ok;
    for (size_t i = 0; i < segment.packages.size(); i++)
        segment.packages[i].checksum =
            checksum128(data.subspan(i * package_bytes_, package_bytes_));
    if (makes_holes_)
        make_holes(data, at);
    uint8_t head[kMaxSegmentHead];
    const size_t size =
        encode_segment_head(placed_segment(segment, placed.start, placed.first_package), head);
    assert(placed.start + size == at);
    if (auto ok = file_.write_at(placed.start, Bytes(head).first(size)); !ok)
        return ok;
    output_.index().add_segment({placed.start, size + segment.stored}, segment.packages,
                                segment.extents);
    return {};
}

Result<void> PlacedSegments::write_index_part(const Placed &placed)
{
    const uint64_t at = placed.segment.packages.back().offset + package_bytes_;
    auto payload = output_.index().take_part(at);
    if (!payload)
        return payload.error();
    RecordPrefix prefix{
        .type = RecordType::index_part, .flags = kRequired, .length = payload->size()};
    const auto encoded = prefix.encode(*payload);
    output_.buffer().covered().add(encoded);
    output_.buffer().covered().add(*payload);
    if (auto ok = file_.write_at(at, encoded); !ok)
        return ok;
    return file_.write_at(at + kPrefixSize, *payload);
}

// Zero pages are part of packages here; punches holes so that they need no space on the disk.
void PlacedSegments::make_holes(Bytes pages, uint64_t offset) const
{
    const uint64_t least = file_.least_hole();
    for (size_t from = 0; from < pages.size();) {
        size_t end = from;
        while (end < pages.size() && is_zero_page(pages.data() + end))
            end += kPageSize;
        if (end > from && end - from >= least)
            fallocate(file_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(offset + from),
                      off_t(end - from));
        from = end + kPageSize;
    }
}

} // namespace cryo::image
