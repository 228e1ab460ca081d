// SPDX-License-Identifier: Apache-2.0
//
// The output stage of ImageWriter: whatever is known only after everything before it was packed.
// Offsets, heads of segments, the index, the checksum over all metadata, the footer.
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
        return index_.write_part(out_, table_packer_);
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

// Writes index, directory, padding and footer.
Result<void> ImageWriter::output_end()
{
    if (auto ok = end_wide(); !ok)
        return ok;
    const auto directory = index_.write_end(out_, table_packer_);
    if (!directory)
        return directory.error();
    footer_.directory = directory->offset;
    footer_.directory_length = directory->length;

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
