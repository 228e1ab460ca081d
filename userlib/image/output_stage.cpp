// SPDX-License-Identifier: Apache-2.0
#include "image/output_stage.hpp"

namespace cryo::image {

OutputStage::OutputStage(Sink &sink, const Header &header, size_t index_part)
    : header_(header), out_(sink), index_(index_part), wide_(sink, out_, header.package_bytes())
{}

Result<void> OutputStage::begin()
{
    if (auto ok = out_.allocate(); !ok)
        return ok;
    return out_.append_covered(header_.encode());
}

Result<void> OutputStage::write(Batch &batch)
{
    if (wide_.is_open() && !wide_.continues_with(batch))
        if (auto ok = end_segment(); !ok)
            return ok;
    if (auto ok = out_.append_covered(batch.metadata); !ok)
        return ok;
    if (batch.packages.empty() && batch.extents.empty())
        return {};
    if (!wide_.is_open() && wide_.begins_with(batch))
        if (auto ok = wide_.begin(batch, footer_.packages); !ok)
            return ok;
    if (auto ok = wide_.is_open() ? add_to_wide(batch) : write_segment(batch); !ok)
        return ok;
    if (!wide_.is_open() && index_.full())
        return index_.write_part(out_, table_packer_);
    return {};
}

Result<void> OutputStage::write_segment(Batch &batch)
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
    uint64_t stored = 0;
    for (const Package &p : batch.packages)
        stored += p.stored;
    count(batch.packages.size(), stored);
    return {};
}

Result<void> OutputStage::add_to_wide(Batch &batch)
{
    if (auto ok = wide_.add(batch); !ok)
        return ok;
    count(batch.packages.size(), batch.stored);
    return {};
}

Result<void> OutputStage::end_segment()
{
    if (!wide_.is_open())
        return {};
    if (auto ok = wide_.end(index_); !ok)
        return ok;
    return index_.full() ? index_.write_part(out_, table_packer_) : Result<void>();
}

Result<Footer> OutputStage::finish(uint64_t records, uint64_t blocks)
{
    if (auto ok = end_segment(); !ok)
        return ok.error();
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
            return ok.error();
    }
    footer_.id = header_.id;
    footer_.length = out_.offset() + kFooterSize;
    footer_.records = records;
    footer_.blocks = blocks;
    if (auto ok = out_.append(footer_.seal(out_.covered())); !ok)
        return ok.error();
    if (auto ok = out_.flush(); !ok)
        return ok.error();
    return footer_;
}

} // namespace cryo::image
