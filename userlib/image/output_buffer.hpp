// SPDX-License-Identifier: Apache-2.0
//
// Bytes of an image on their way to its sink, which takes whole pages at page boundaries: small
// pieces are collected until they are enough, pages go without a copy.
//
//     OutputBuffer out(*sink);
//     if (Result<void> ok = out.allocate(); !ok)
//         return ok;
//     Result<void> ok = out.append_covered(header.encode());
//     ok = out.append_pages(memory->data());       // at a page boundary of the image
//     ok = out.flush();
#pragma once

#include <atomic>
#include <memory>

#include "image/header.hpp"
#include "image/pipeline.hpp"
#include "image/sink.hpp"

namespace cryo::image {

class OutputBuffer
{
  public:
    explicit OutputBuffer(Sink &sink) : sink_(sink) {}
    OutputBuffer(const OutputBuffer &) = delete;
    OutputBuffer &operator=(const OutputBuffer &) = delete;
    // Comes first.
    Result<void> allocate();

    // In the image, of the next byte; callable from any thread.
    uint64_t offset() const { return offset_.load(std::memory_order_relaxed); }

    Result<void> append(Bytes bytes);
    Result<void> append_covered(Bytes bytes); // bytes that the footer's checksum covers
    Result<void> append_record(RecordPrefix prefix, Bytes payload);
    // Page-aligned memory that begins on a page boundary of the image is written without a copy.
    Result<void> append_pages(MutableBytes aligned);
    // Writes the whole pages that are pending.
    Result<void> flush() { return write({}); }

    // The bytes that the footer's checksum covers so far.
    Hasher &covered() { return covered_; }
    // The bytes of the page that the next byte belongs to.
    Bytes begun_page() const
    {
        const size_t begun = offset() % kPageSize;
        return memory_->data().subspan(size_ - begun, begun);
    }
    // Memory that is not used by append().
    MutableBytes spare() const { return memory_->data().subspan(2 * flush_at); }

    // For pages that come into the file by other means. Writes everything; until resume() nothing
    // is pending, and all of memory() is free.
    Result<void> write_all();
    MutableBytes memory() const { return memory_->data(); }
    void skip(uint64_t bytes) { offset_ += bytes; }
    // The next bytes may begin in the middle of a page, which is in the file.
    Result<void> resume(const PlaceableFile &file);

  private:
    static constexpr size_t flush_at = 512 * 1024;
    Result<void> write(MutableBytes pages);

    Sink &sink_;
    std::unique_ptr<SegmentMemory> memory_; // bytes to be written before anything else
    size_t size_ = 0;
    std::atomic<uint64_t> offset_ = 0;
    Hasher covered_;
};

} // namespace cryo::image
