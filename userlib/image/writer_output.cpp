// SPDX-License-Identifier: Apache-2.0
//
// The output stage of ImageWriter: whatever is known only after everything before it was packed.
// Offsets, heads of segments, the index, the checksum over all metadata, the footer.
#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "image/writer.hpp"

namespace cryo::image {

namespace {

constexpr size_t kPendingFlush = 512 * 1024;

} // namespace

Result<void> ImageWriter::output(Batch &batch)
{
    if (wide_ && !continues_wide(batch))
        if (auto ok = end_wide(); !ok)
            return ok;
    if (auto ok = append_covered(batch.metadata); !ok)
        return ok;
    if (batch.packages.empty() && batch.extents.empty())
        return {};
    if (!wide_ && begins_wide(batch))
        if (auto ok = begin_wide(batch); !ok)
            return ok;
    if (auto ok = wide_ ? widen(batch) : output_segment(batch); !ok)
        return ok;
    if (!wide_ && index_.full())
        return output_index_part();
    return {};
}

Result<void> ImageWriter::output_segment(Batch &batch)
{
    uint8_t head[kMaxSegmentHead];
    uint64_t start = offset_;
    size_t size = encode_segment_head({.offset = start,
                                       .first_block = batch.first_block,
                                       .first_package = footer_.packages,
                                       .packages = batch.packages,
                                       .extents = batch.extents,
                                       .data_size = batch.stored},
                                      head, &table_packer_);
    if (auto ok = append(Bytes(head).first(size)); !ok)
        return ok;
    if (batch.memory)
        if (auto ok = append_pages(batch.memory->data().first(batch.stored)); !ok)
            return ok;
    index_.add_segment({start, offset_ - start}, batch.packages, batch.extents);
    footer_.packages += batch.packages.size();
    for (const Package &p : batch.packages)
        footer_.stored += p.stored;
    return {};
}

Result<void> ImageWriter::output_index_part()
{
    auto payload = index_.take();
    if (!payload)
        return payload.error();
    std::vector<uint8_t> packed;
    const Bytes shorter = pack_index_part(table_packer_, *payload, packed);
    const bool plain = shorter.empty();
    const Bytes stored = plain ? Bytes(*payload) : shorter;
    if (auto ok = note_index_part(offset_, stored, *payload); !ok)
        return ok;
    RecordPrefix prefix{.type = RecordType::index_part, .flags = kRequired};
    if (!plain) {
        prefix.version = kPackedIndexVersion;
        prefix.flags |= kRequiredVersion;
    }
    return append_record(prefix, stored);
}

// Adds the directory's entry for the index part at this offset, given as stored and unpacked.
Result<void> ImageWriter::note_index_part(uint64_t offset, Bytes stored, Bytes payload)
{
    std::vector<uint8_t> none;
    auto part = IndexPart::parse(payload, 1, none);
    if (!part)
        return part.error();
    if (parts_.size() == kMaxParts)
        return Error(EFBIG, "the image needs a larger index than the format can hold");
    parts_.push_back(PartEntry::describe({offset, kPrefixSize + stored.size()}, stored, *part));
    return {};
}

// Writes index, directory, padding and footer.
Result<void> ImageWriter::output_end()
{
    if (auto ok = end_wide(); !ok)
        return ok;
    if (!index_.empty())
        if (auto ok = output_index_part(); !ok)
            return ok;
    footer_.directory = offset_;
    if (auto ok = append_record({.type = RecordType::directory, .flags = kRequired},
                                encode_directory(parts_));
        !ok)
        return ok;
    footer_.directory_length = offset_ - footer_.directory;

    if (size_t used = offset_ % kPageSize) {
        size_t gap = kPageSize - used;
        if (gap < kPrefixSize)
            gap += kPageSize;
        std::vector<uint8_t> zeros(gap - kPrefixSize);
        if (auto ok = append_record({.type = RecordType::padding, .flags = kRequired}, zeros); !ok)
            return ok;
    }
    footer_.id = header_.id;
    footer_.length = offset_ + kFooterSize;
    if (auto ok = append(footer_.seal(covered_)); !ok)
        return ok;
    return flush({});
}

Result<void> ImageWriter::append_record(RecordPrefix prefix, Bytes payload)
{
    prefix.length = payload.size();
    if (auto ok = append_covered(prefix.encode(payload)); !ok)
        return ok;
    return append_covered(payload);
}

Result<void> ImageWriter::append_covered(Bytes bytes)
{
    covered_.add(bytes);
    return append(bytes);
}

Result<void> ImageWriter::append(Bytes bytes)
{
    while (!bytes.empty()) {
        if (pending_size_ >= kPendingFlush)
            if (auto ok = flush({}); !ok)
                return ok;
        size_t n = std::min(bytes.size(), 2 * kPendingFlush - pending_size_);
        memcpy(pending_->data().data() + pending_size_, bytes.data(), n);
        pending_size_ += n;
        offset_ += n;
        bytes = bytes.subspan(n);
    }
    return {};
}

// Page-aligned memory that begins on a page boundary of the image is written without a copy.
Result<void> ImageWriter::append_pages(MutableBytes aligned)
{
    assert(offset_ % kPageSize == 0);
    size_t whole = aligned.size() / kPageSize * kPageSize;
    if (whole) {
        if (auto ok = flush(aligned.first(whole)); !ok)
            return ok;
        offset_ += whole;
    }
    return append(aligned.subspan(whole));
}

// Writes the whole pages that are pending, then `pages`: with pages, nothing may stay pending.
Result<void> ImageWriter::flush(MutableBytes pages)
{
    uint8_t *pending = pending_->data().data();
    size_t whole = pending_size_ / kPageSize * kPageSize;
    size_t rest = pending_size_ - whole;
    assert(pages.empty() || rest == 0);
    iovec pieces[2];
    size_t n = 0;
    if (whole)
        pieces[n++] = {pending, whole};
    if (!pages.empty())
        pieces[n++] = {pages.data(), pages.size()};
    if (n)
        if (auto ok = sink_->write(std::span(pieces, n)); !ok)
            return ok;
    memmove(pending, pending + whole, rest);
    pending_size_ = rest;
    return {};
}

} // namespace cryo::image
