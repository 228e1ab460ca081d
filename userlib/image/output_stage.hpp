// SPDX-License-Identifier: Apache-2.0
//
// The output stage of ImageWriter: whatever is known only after everything before it was packed.
// Offsets, heads of segments, the index, the checksum over all metadata, the footer. Batches come
// in a thread of their own; while that is idle, the thread of the writer's caller may use this.
//
//     OutputStage output(*sink, header, kMaxRecord / 2);
//     Result<void> ok = output.begin();
//     ok = output.write(batch);
//     Result<Footer> footer = output.finish(records, blocks);
#pragma once

#include "image/header.hpp"
#include "image/index_writer.hpp"
#include "image/output_buffer.hpp"
#include "image/pipeline.hpp"
#include "image/sink.hpp"
#include "image/wide_segment.hpp"

namespace cryo::image {

class OutputStage
{
  public:
    // `index_part`: bytes of the index that are written at a time.
    OutputStage(Sink &sink, const Header &header, size_t index_part);
    OutputStage(const OutputStage &) = delete;
    OutputStage &operator=(const OutputStage &) = delete;

    // Writes the header.
    Result<void> begin();
    Result<void> write(Batch &batch);
    // Completes the segment that later batches might have continued.
    Result<void> end_segment();
    // Writes index, directory, padding and footer.
    Result<Footer> finish(uint64_t records, uint64_t blocks);

    OutputBuffer &buffer() { return out_; }
    const OutputBuffer &buffer() const { return out_; }
    IndexWriter &index() { return index_; }
    uint64_t packages() const { return footer_.packages; }
    // Packages that are in the image now, or will be, and their bytes as stored.
    void count(uint64_t packages, uint64_t stored)
    {
        footer_.packages += packages;
        footer_.stored += stored;
    }

  private:
    Result<void> write_segment(Batch &batch);
    Result<void> add_to_wide(Batch &batch);

    const Header &header_;
    Footer footer_;
    OutputBuffer out_;
    IndexWriter index_;
    Packer table_packer_ = Packer(Packing::zstd);
    WideSegment wide_;
};

} // namespace cryo::image
