// SPDX-License-Identifier: Apache-2.0
//
// The output stage of ImageWriter: whatever is known only after everything before it was packed.
// Offsets, heads of segments, the index, the checksum over all metadata, the footer.
#include <cerrno>

#include "image/writer.hpp"

namespace cryo::image {

Result<void> ImageWriter::output(Batch &batch)
{
    if (wide_ && !continues_wide(batch))
        if (auto ok = end_wide(); !ok)
            return ok;
    if (auto ok = out_.append_covered(batch.metadata); !ok)
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
    uint64_t start = out_.offset();
    size_t size = encode_segment_head({.offset = start,
                                       .first_block = batch.first_block,
                                       .first_package = footer_.packages,
                                       .packages = batch.packages,
                                       .extents = batch.extents,
                                       .data_size = batch.stored},
                                      head, &table_packer_);
    if (auto ok = out_.append(Bytes(head).first(size)); !ok)
        return ok;
    if (batch.memory)
        if (auto ok = out_.append_pages(batch.memory->data().first(batch.stored)); !ok)
            return ok;
    index_.add_segment({start, out_.offset() - start}, batch.packages, batch.extents);
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
    if (auto ok = note_index_part(out_.offset(), stored, *payload); !ok)
        return ok;
    RecordPrefix prefix{.type = RecordType::index_part, .flags = kRequired};
    if (!plain) {
        prefix.version = kPackedIndexVersion;
        prefix.flags |= kRequiredVersion;
    }
    return out_.append_record(prefix, stored);
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
    footer_.directory = out_.offset();
    if (auto ok = out_.append_record({.type = RecordType::directory, .flags = kRequired},
                                     encode_directory(parts_));
        !ok)
        return ok;
    footer_.directory_length = out_.offset() - footer_.directory;

    if (size_t used = out_.offset() % kPageSize) {
        size_t gap = kPageSize - used;
        if (gap < kPrefixSize)
            gap += kPageSize;
        std::vector<uint8_t> zeros(gap - kPrefixSize);
        if (auto ok = out_.append_record({.type = RecordType::padding, .flags = kRequired}, zeros);
            !ok)
            return ok;
    }
    footer_.id = header_.id;
    footer_.length = out_.offset() + kFooterSize;
    if (auto ok = out_.append(footer_.seal(out_.covered())); !ok)
        return ok;
    return out_.flush();
}

} // namespace cryo::image
