// SPDX-License-Identifier: Apache-2.0
//
// The segment that the caller of ImageWriter is filling: pages in memory, and extents that say what
// they are.
//
//     SegmentBuilder segment({.package_blocks = 64});
//     segment.set_memory(std::move(*memory));
//     MutableBytes space = segment.space(8);
//     ... fill it ...
//     segment.take(object, first_page, 8);
//     if (segment.is_full())
//         submit(segment.cut(false, nullptr));
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "image/format.hpp"
#include "image/pipeline.hpp"
#include "image/tables.hpp"

namespace cryo::image {

class SegmentBuilder
{
  public:
    struct Options {
        uint32_t package_blocks = kMaxPackageBlocks;
        bool may_be_raw = true;      // takes checksums of packages that are not packed
        bool find_zero_pages = true; // pages of zeros become extents without data
    };
    explicit SegmentBuilder(const Options &options) : options_(options) {}

    size_t capacity() const { return kSegmentData / package_bytes() * options_.package_blocks; }
    size_t blocks() const { return blocks_; }
    uint64_t first_block() const { return first_block_; } // in the image
    bool is_full() const { return blocks_ == capacity(); }
    bool has_room(size_t extents) const { return extents_.size() + extents <= kMaxSegmentExtents; }
    // How many blocks are missing for whole packages.
    uint64_t missing() const
    {
        return (options_.package_blocks - blocks_ % options_.package_blocks) %
               options_.package_blocks;
    }

    // Continues the last extent; false: this one does not.
    bool extend(const Extent &extent);
    void add(const Extent &extent) { extents_.push_back(extent); } // has_room() for it

    bool has_memory() const { return memory_ != nullptr; }
    void set_memory(std::unique_ptr<SegmentMemory> memory) { memory_ = std::move(memory); }
    // Memory for at least one and at most `want` pages; there is memory, and room for extents.
    MutableBytes space(uint64_t want) const;
    // The first pages of that space have been filled.
    void take(uint32_t object, uint64_t first_page, uint64_t count);

    // Ends the segment. Only the last one may end with an incomplete package: the blocks beyond the
    // last whole one move to the next segment, with their extents, and need memory there.
    bool moves_blocks(bool last) const { return kept(last) != 0 && kept(last) != blocks_; }
    Batch cut(bool last, std::unique_ptr<SegmentMemory> next);

    // A segment of its own, of whole packages that will be in the file; this one has no blocks.
    struct PageRun {
        uint64_t page, count;
    };
    Batch placed(uint32_t object, std::span<const PageRun> runs);

  private:
    size_t package_bytes() const { return size_t(options_.package_blocks) * kPageSize; }
    size_t kept(bool last) const { return last ? 0 : blocks_ % options_.package_blocks; }

    Options options_;
    std::unique_ptr<SegmentMemory> memory_;
    size_t blocks_ = 0; // in memory_
    std::vector<Extent> extents_;
    uint64_t first_block_ = 0;
    std::vector<Digest> raw_checksums_; // of the whole packages in memory_, if they may stay raw
};

} // namespace cryo::image
