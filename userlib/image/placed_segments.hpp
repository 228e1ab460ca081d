// SPDX-License-Identifier: Apache-2.0
//
// Segments whose pages the caller places in the image's file directly. All positions follow from
// the number of pages and runs, so heads of segments and parts of the index, which hold checksums,
// are left out at first and written when the checksums are known. Meanwhile the output stage is
// idle, and the caller's thread uses its state.
//
//     PlacedSegments placed(*sink->placeable(), output, header.package_bytes(), true);
//     ... nothing is under way in the output stage ...
//     Result<void> ok = placed.begin();
//     Result<uint64_t> offset = placed.add(std::move(segment));   // the pages go there
//     ok = placed.check();                                        // they are there
#pragma once

#include <optional>
#include <vector>

#include "image/output_stage.hpp"
#include "image/pipeline.hpp"
#include "image/sink.hpp"
#include "image/tables.hpp"

namespace cryo::image {

class PlacedSegments
{
  public:
    // `makes_holes`: pages of zeros need no space in the file.
    PlacedSegments(PlaceableFile &file, OutputStage &output, size_t package_bytes, bool makes_holes)
        : file_(file), output_(output), package_bytes_(package_bytes), makes_holes_(makes_holes)
    {}

    const PlaceableFile &file() const { return file_; }
    bool is_begun() const { return layout_.has_value(); }
    Result<void> begin();
    // A segment that has its extents, and packages without checksums; returns the offset of its
    // pages in the file.
    Result<uint64_t> add(Batch segment);
    // The pages of all segments are in the file: takes their checksums, and writes what was left
    // out. Then the output stage goes on behind them.
    Result<void> check();

  private:
    // In file order.
    struct Placed {
        uint64_t start;         // of the record
        uint64_t first_package; // of a segment
        Batch segment;
        bool has_part = false; // an index part follows it
    };
    Result<void> check_segment(Placed &placed);
    Result<void> write_index_part(const Placed &placed);
    void make_holes(Bytes pages, uint64_t offset) const;

    PlaceableFile &file_;
    OutputStage &output_;
    size_t package_bytes_;
    bool makes_holes_;
    std::vector<Placed> placed_;         // segments that have no checksums yet
    std::optional<IndexBuilder> layout_; // the index as it will be, except for checksums
};

} // namespace cryo::image
