// SPDX-License-Identifier: Apache-2.0
//
// Wide segments. Memory that is stored raw should be contiguous in the file as far as possible, so
// that a lazy restart needs few mappings for it: consecutive segments are joined into one, whose
// head is written when all of its packages are known. A sink that cannot rewrite pages gets no
// wide segments.
//
//     WideSegment wide(sink, out, header.package_bytes());
//     if (wide.is_open() && !wide.continues_with(batch))
//         ok = wide.end(index);
//     if (!wide.is_open() && wide.begins_with(batch))
//         ok = wide.begin(batch, packages_before);
//     if (wide.is_open())
//         ok = wide.add(batch);
#pragma once

#include <optional>
#include <vector>

#include "image/index_writer.hpp"
#include "image/output_buffer.hpp"
#include "image/pipeline.hpp"
#include "image/sink.hpp"

namespace cryo::image {

class WideSegment
{
  public:
    WideSegment(Sink &sink, OutputBuffer &out, size_t package_bytes)
        : sink_(sink), out_(out), package_bytes_(package_bytes)
    {}

    bool is_open() const { return open_.has_value(); }
    // While none is open: whether one would begin with this batch.
    bool begins_with(const Batch &batch) const;
    // Whether the open one can hold this batch as well.
    bool continues_with(const Batch &batch) const;

    // Leaves room for the head. `first_package`: how many are before it in the image.
    Result<void> begin(const Batch &batch, uint64_t first_package);
    Result<void> add(Batch &batch);
    // Writes the head of the open one, if one is open.
    Result<void> end(IndexWriter &index);

  private:
    bool is_raw(const Batch &batch) const;

    // The head is zeros at first and is rewritten at the end.
    struct Open {
        uint64_t start; // of the record
        size_t skip;    // bytes before it in its first page
        size_t head;    // bytes
        uint64_t first_block, first_package;
        uint64_t stored = 0;
        std::vector<Package> packages = {};
        std::vector<Extent> extents = {};
    };

    Sink &sink_;
    OutputBuffer &out_;
    size_t package_bytes_;
    std::optional<Open> open_;
};

} // namespace cryo::image
