// SPDX-License-Identifier: Apache-2.0
//
// The tables that find page data: the head of a segment, the parts of the index, the directory of
// those parts. Each has a view that reads it in place after one check of everything, and a builder
// for writers.
//
//     Result<IndexPart> part = IndexPart::parse(payload, prefix.version, unpacked);
//     size_t i = part->lower_bound(object, page);
#pragma once

#include <optional>
#include <vector>

#include "base/result.hpp"
#include "image/checksum.hpp"
#include "image/codec.hpp"

namespace cryo::image {

// A run of pages of one object, and where their contents are.
struct Extent {
    uint32_t object = 0;
    ExtentKind kind = ExtentKind::data;
    uint64_t page = 0;
    uint64_t count = 0;
    uint64_t source = 0; // data: first block; base: first page in the base; zero: 0

    uint64_t end() const { return page + count; }
    bool before(const Extent &other) const
    {
        return object != other.object ? object < other.object : page < other.page;
    }
    // True if `next` continues this run, so that both can be joined.
    bool continues_with(const Extent &next) const;
    bool operator==(const Extent &) const = default;
};

// One package: Q blocks, or fewer at the end of the image.
struct Package {
    uint64_t offset = 0; // in the image
    uint32_t stored = 0; // bytes there
    Codec codec = Codec::raw;
    Digest checksum; // XXH3-128 of the bytes as stored

    bool operator==(const Package &) const = default;
};

struct ByteRange {
    uint64_t offset = 0;
    uint64_t length = 0;

    uint64_t end() const { return offset + length; }
    bool operator==(const ByteRange &) const = default;
};

// The tables at the beginning of a segment's payload.
class SegmentHead
{
  public:
    static constexpr size_t kFixed = 32; // bytes before the tables

    // `version` and `payload_size` are the record's, `payload_offset` is where the payload begins
    // in the image, `package_blocks` the header's Q.
    static Result<SegmentHead> parse(Bytes head, uint16_t version, uint64_t payload_offset,
                                     uint64_t payload_size, uint32_t package_blocks);
    // The head's whole size, tables and padding, from its first bytes.
    static Result<size_t> size(std::span<const uint8_t, kFixed> fixed, uint16_t version,
                               uint64_t payload_size);

    uint64_t first_block() const { return first_block_; }
    uint64_t first_package() const { return first_package_; }
    uint64_t block_count() const { return block_count_; }
    const std::vector<Package> &packages() const { return packages_; }
    // Extents of kind data are in the order of their blocks and cover the segment's blocks exactly.
    const std::vector<Extent> &extents() const { return extents_; }

  private:
    uint64_t first_block_ = 0;
    uint64_t first_package_ = 0;
    uint64_t block_count_ = 0;
    std::vector<Package> packages_;
    std::vector<Extent> extents_;
};

// Bytes of a record SEGMENT up to the end of its tables.
size_t segment_tables(size_t packages, size_t extents);

// A segment that is to be written.
struct SegmentToWrite {
    uint64_t offset; // in the image
    uint64_t first_block, first_package;
    std::span<Package> packages; // their offsets are filled in
    std::span<const Extent> extents;
    uint64_t data_size;
};

// Writes a record SEGMENT up to its data. Returns the bytes used in `out`, so that the data begins
// on a page boundary of the image. With a packer the tables are packed where that shortens it.
size_t encode_segment_head(const SegmentToWrite &segment, MutableBytes out,
                           Packer *packer = nullptr);
// Writes the head of a wide segment, in exactly out.size() bytes.
void encode_wide_head(const SegmentToWrite &segment, MutableBytes out);

// Where a package starts after the previous one: a raw one on a page boundary.
uint64_t package_start(uint64_t end_of_previous, Codec codec);

class IndexPart
{
  public:
    // Checks sizes, order and reserved bytes. The payload must outlive the view, and so must
    // `unpacked`, which holds the tables if they are packed.
    static Result<IndexPart> parse(Bytes payload, uint16_t version, std::vector<uint8_t> &unpacked);

    uint64_t first_package() const { return first_package_; }
    size_t segment_count() const { return segments_.size() / kSegmentEntry; }
    size_t package_count() const { return packages_.size() / kPackageEntry; }
    size_t extent_count() const { return extents_.size() / kExtentEntry; }
    ByteRange segment(size_t i) const;
    Package package(size_t i) const;
    // The number of contiguous raw packages of `size` bytes from the i-th on.
    size_t raw_row(size_t i, uint64_t size) const;
    Extent extent(size_t i) const;

    // Index of the first extent of `object` that ends beyond `page`; extent_count() if none does.
    size_t lower_bound(uint32_t object, uint64_t page) const;

    static constexpr size_t kFixed = 24;
    static constexpr size_t kSegmentEntry = 16;
    static constexpr size_t kPackageEntry = 32;
    static constexpr size_t kExtentEntry = 32;

  private:
    uint64_t first_package_ = 0;
    Bytes segments_;
    Bytes packages_;
    Bytes extents_;
};

// Collects index entries until they are worth a record.
class IndexBuilder
{
  public:
    explicit IndexBuilder(size_t limit) : limit_(limit) {}

    void add_segment(const ByteRange &record, std::span<const Package> packages,
                     std::span<const Extent> extents);
    bool empty() const { return segments_.empty(); }
    // One more segment might not fit.
    bool full() const;

    // The payload of an INDEX_PART; empties the builder. EINVAL: a page was added twice.
    Result<std::vector<uint8_t>> take();

  private:
    size_t limit_;
    uint64_t first_package_ = 0;
    std::vector<ByteRange> segments_;
    std::vector<Package> packages_;
    std::vector<Extent> extents_;
};

// The payload of version kPackedIndexVersion, in `packed`; empty if packing does not pay.
Bytes pack_index_part(Packer &packer, Bytes payload, std::vector<uint8_t> &packed);

// What the directory says about one part of the index.
struct PartEntry {
    ByteRange record; // prefix and payload
    Digest checksum;  // of the payload
    uint64_t first_package = 0;
    uint64_t package_count = 0;
    uint32_t first_object = 0; // keys of the first and the last extent
    uint32_t last_object = 0;
    uint64_t first_page = 0;
    uint64_t end_page = 0; // page after the last extent

    static PartEntry describe(const ByteRange &record, Bytes payload, const IndexPart &part);
    bool may_hold(uint32_t object, uint64_t page) const;
    bool operator==(const PartEntry &) const = default;
};

std::vector<uint8_t> encode_directory(std::span<const PartEntry> parts);
Result<std::vector<PartEntry>> decode_directory(Bytes payload);

inline constexpr size_t kMaxParts = 6000;

} // namespace cryo::image
