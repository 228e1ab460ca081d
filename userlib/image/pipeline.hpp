// SPDX-License-Identifier: Apache-2.0
//
// The stages between a full segment and the sink: worker threads pack and checksum the packages,
// one thread hands finished segments on in order. Memory use is bounded: three segments, and one
// package per worker.
//
//     Pipeline pipeline({Packing::automatic, 2, size}, [&](Batch &b) { return write(b); });
//     Result<std::unique_ptr<SegmentMemory>> m = pipeline.memory();    // waits for a free one
//     ... fill m->data() ...
//     pipeline.submit({.memory = std::move(*m), .bytes = n});
//     Result<void> ok = pipeline.drain();
//
// With Packing::spare a segment is packed while the output is the bottleneck: the caller has waited
// for memory twice, and the output did not have to wait for data in between; and packing, once
// it has been measured, is quicker than the output.
//
// Without threads everything happens inside submit(). An error of any stage is final: memory(),
// submit() and drain() return it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "image/codec.hpp"
#include "image/tables.hpp"

namespace cryo::image {

// Page-aligned memory for one segment, with room for its head in front of the data.
class SegmentMemory
{
  public:
    static Result<std::unique_ptr<SegmentMemory>> create();
    ~SegmentMemory();
    SegmentMemory(const SegmentMemory &) = delete;
    SegmentMemory &operator=(const SegmentMemory &) = delete;

    MutableBytes data() { return {base_, kSegmentData}; }

  private:
    explicit SegmentMemory(uint8_t *base) : base_(base) {}
    uint8_t *base_;
};

// One item of the pipeline: metadata, then perhaps a segment.
struct Batch {
    std::vector<uint8_t> metadata = {}; // encoded records that come first
    std::unique_ptr<SegmentMemory> memory = {};
    size_t bytes = 0; // of pages in memory
    uint64_t first_block = 0;
    std::vector<Extent> extents = {};

    // Checksums of the first packages, not packed: taken while they were in the processor's cache.
    std::vector<Digest> raw_checksums = {};

    std::vector<Package> packages = {}; // made by packing; the output sets their offsets
    size_t claimed = 0;                 // packages that a worker has taken
    bool is_packed = false;             // whether packages are packed; decided with the first
    size_t placed = 0;                  // packages that are in place
    size_t stored = 0; // bytes in memory now: packages placed, and the gaps between
};

class Pipeline
{
  public:
    struct Options {
        Packing packing = Packing::raw;
        unsigned threads = 1; // workers; 0: no threads at all
        size_t package_bytes = 0;
    };
    using Output = std::function<Result<void>(Batch &)>;

    static constexpr unsigned kSegments = 3; // one is filled, one packed, one written

    Pipeline(const Options &options, Output output);
    ~Pipeline();
    Pipeline(const Pipeline &) = delete;
    Pipeline &operator=(const Pipeline &) = delete;

    Result<std::unique_ptr<SegmentMemory>> memory();
    Result<void> submit(Batch batch);
    Result<void> drain(); // until everything that was submitted has been written
    bool is_ahead();      // all is packed, and the caller waits in memory() for the output

  private:
    bool start_threads();
    void end_threads();
    void work();
    void write();
    bool packs(Batch &batch) const;
    Packer::Packed pack(Batch &batch, size_t i, Packer &packer) const;
    static void place(Batch &batch, size_t i, const Packer::Packed &packed);
    Batch *next_to_pack();

    Options options_;
    Output output_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Batch> queue_; // in order; the front one is being written
    std::vector<std::unique_ptr<SegmentMemory>> free_;
    unsigned allocated_ = 0;
    bool stop_ = false;
    bool is_waited_for_ = false;
    // Of Packing::spare:
    unsigned waits_ = 0;      // for memory, since the output last waited while nothing was packed
    bool is_packing_ = false; // whether the segment begun last is packed
    struct Rate {
        uint64_t bytes = 0, ns = 0;
    };
    Rate packing_, writing_; // totals so far
    std::optional<Error> error_;

    std::unique_ptr<Packer> inline_packer_;
    std::vector<std::thread> threads_;
};

} // namespace cryo::image
