// SPDX-License-Identifier: Apache-2.0
//
// The index of an image that is being written: parts of it among the segments, and the directory of
// all parts behind the last one.
//
//     IndexWriter index(kMaxRecord / 2);
//     index.add_segment({start, length}, packages, extents);
//     if (index.full())
//         ok = index.write_part(out, packer);
//     Result<ByteRange> directory = index.write_end(out, packer);
#pragma once

#include <vector>

#include "image/output_buffer.hpp"
#include "image/tables.hpp"

namespace cryo::image {

class IndexWriter
{
  public:
    // `part`: bytes of it that are written at a time.
    explicit IndexWriter(size_t part) : next_(part) {}

    void add_segment(const ByteRange &record, std::span<const Package> packages,
                     std::span<const Extent> extents)
    {
        next_.add_segment(record, packages, extents);
    }
    bool full() const { return next_.full(); }
    // The contents of the next part.
    const IndexBuilder &next() const { return next_; }

    Result<void> write_part(OutputBuffer &out, Packer &packer);
    // The next part, not packed, for the caller to write at this offset.
    Result<std::vector<uint8_t>> take_part(uint64_t offset);
    // Writes the last part and the directory, and tells where the directory is.
    Result<ByteRange> write_end(OutputBuffer &out, Packer &packer);

  private:
    Result<void> note_part(uint64_t offset, Bytes stored, Bytes payload);

    IndexBuilder next_;
    std::vector<PartEntry> parts_;
};

} // namespace cryo::image
