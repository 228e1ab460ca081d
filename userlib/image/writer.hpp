// SPDX-License-Identifier: Apache-2.0
//
// ImageWriter writes one image to a sink: records and pages in any order, then commit().
//
//     auto sink = FileSink::create("context.412");
//     auto writer = ImageWriter::create(std::move(*sink), {.packing = Packing::automatic});
//     (*writer)->add(Process{.pid = 412, ...});
//     (*writer)->add_pages(object, first_page, bytes);
//     Result<Committed> done = (*writer)->commit();
//
// Nothing is visible under the image's name before commit() has succeeded; a writer that is
// destroyed without it leaves nothing. After an error every call returns that error.
// In the image, a record precedes all pages that were added after it; the reverse does not
// hold. Memory: three segments of 4 MiB and the pending metadata and index, below 16 MiB together,
// plus one package (and what its codec needs) per thread.
#pragma once

#include <atomic>
#include <optional>

#include "image/header.hpp"
#include "image/output_stage.hpp"
#include "image/pipeline.hpp"
#include "image/placed_segments.hpp"
#include "image/record_codec.hpp"
#include "image/segment_builder.hpp"
#include "image/sink.hpp"

namespace cryo::image {

struct BaseImage {
    Digest id;
    Digest checksum; // in its footer
};

struct WriterOptions {
    Role role = Role::process;
    Packing packing = Packing::raw;
    uint32_t package_blocks = kMaxPackageBlocks; // Q: 4 … 64
    unsigned threads = 0;               // workers that pack and checksum; 0: chosen by `packing`
    bool synchronous = false;           // no threads at all
    bool find_zero_pages = true;        // pages of zeros become extents without data
    std::optional<BaseImage> base = {}; // this image is a delta of that one
    uint64_t features = 0;
    uint64_t hints = 0;
    size_t index_part = kMaxRecord / 2; // bytes of the index that are written at a time
};

struct Committed {
    Digest id;
    Digest checksum;   // a delta of this image names it along with the id
    uint64_t size = 0; // bytes written
    uint64_t blocks = 0;
    uint64_t stored = 0; // bytes of pages after packing
};

class ImageWriter
{
  public:
    static Result<std::unique_ptr<ImageWriter>> create(std::unique_ptr<Sink> sink,
                                                       const WriterOptions &options = {});
    ~ImageWriter();
    ImageWriter(const ImageWriter &) = delete;
    ImageWriter &operator=(const ImageWriter &) = delete;

    const Digest &id() const { return header_.id; }

    template <class R>
    Result<void> add(const R &record)
    {
        scratch_.resize(encoded_size(record));
        encode(record, scratch_);
        return add_record(R::type, R::version, record_flags(record), scratch_);
    }
    Result<void> add_record(RecordType type, uint16_t version, uint16_t flags, Bytes payload);

    // Pages of an object, each at most once. `pages` is a multiple of the page size.
    Result<void> add_pages(uint32_t object, uint64_t first_page, Bytes pages);
    Result<void> add_zero(uint32_t object, uint64_t first_page, uint64_t count);
    // Pages that are those of the base image from `base_page` on.
    Result<void> add_base(uint32_t object, uint64_t first_page, uint64_t count, uint64_t base_page);

    // add_pages() without a copy: returns memory for at least one and at most `want` pages, which
    // the caller fills (read(2) from a pipe) and then takes, all or the first of it.
    Result<MutableBytes> page_space(uint64_t want);
    Result<void> take_pages(uint32_t object, uint64_t first_page, uint64_t count);

    // Pages that are written into the sink's file by other means, so that they need not be copied
    // through this writer: whole packages, not packed. One segment per call: the runs have at most
    // placed_most() pages and placed_runs runs, and whole packages in all; the pages are contiguous
    // in the file from the returned offset. Before the first call, as many pages must be taken as
    // before_placing() says; repeatedly, if pages of zeros are among them.
    using PageRun = SegmentBuilder::PageRun;
    static constexpr size_t placed_runs = kMaxSegmentExtents;
    const PlaceableFile *place() const { return placed_ ? &placed_->file() : nullptr; }
    uint64_t placed_most() const { return segment_.capacity(); }
    uint64_t package_blocks() const { return header_.package_blocks; }
    uint64_t before_placing() const { return segment_.missing(); }
    Result<uint64_t> place_pages(uint32_t object, std::span<const PageRun> runs);
    // Placed pages are in the file: takes their checksums. Any other write calls this first.
    Result<void> check_placed();

    // Completes the image and commits the sink.
    Result<Committed> commit();

    // Bytes of page data handed in so far, and written so far; callable from any thread.
    uint64_t pages_in() const { return blocks_in_.load(std::memory_order_relaxed) * kPageSize; }
    uint64_t bytes_out() const { return output_.buffer().offset(); }

  private:
    ImageWriter(std::unique_ptr<Sink> sink, const WriterOptions &options, const Header &header);

    Result<void> ready(uint64_t first_page, uint64_t count);
    Result<void> add_extent(const Extent &extent);
    Result<void> make_room(size_t extents);
    Result<void> seal(bool last);
    Result<void> flush_metadata();
    Result<void> begin_placing();

    std::unique_ptr<Sink> sink_;
    WriterOptions options_;
    Header header_;
    std::vector<uint8_t> scratch_;

    // State of the caller's thread.
    uint64_t records_ = 0;          // so far
    std::vector<uint8_t> metadata_; // encoded records that have not been submitted
    SegmentBuilder segment_;
    std::optional<Error> failed_;
    bool finished_ = false;
    std::atomic<uint64_t> blocks_in_ = 0;

    OutputStage output_;
    std::optional<PlacedSegments> placed_; // none if pages cannot be placed
    std::unique_ptr<Pipeline> pipeline_;   // last: its threads use the rest
};

} // namespace cryo::image
