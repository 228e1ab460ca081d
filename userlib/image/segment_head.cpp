// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cassert>
#include <fmt/format.h>

#include "image/table_entries.hpp"

namespace cryo::image {

namespace {

constexpr size_t kPackageEntry = 24;
static_assert(kMaxSegmentPackages == kSegmentData / (kMinPackageBlocks * kPageSize));
static_assert(kMaxSegmentPackages == kWideSegmentData / (kMaxPackageBlocks * kPageSize));

constexpr uint64_t align_page(uint64_t n)
{
    return (n + kPageSize - 1) / kPageSize * kPageSize;
}

size_t tables_size(size_t packages, size_t extents)
{
    return packages * kPackageEntry + extents * IndexPart::kExtentEntry;
}

} // namespace

size_t segment_tables(size_t packages, size_t extents)
{
    return kPrefixSize + SegmentHead::kFixed + tables_size(packages, extents);
}

uint64_t package_start(uint64_t end_of_previous, Codec codec)
{
    return codec == Codec::raw ? align_page(end_of_previous) : end_of_previous;
}

namespace {

// SEGMENT payload: u64 first block, u64 first package, u32 packages, u32 extents, u32 size of the
// head, u32 size of the frame, if packed; packages of 24 bytes; extents of 32 bytes; zeros; then
// the data. `wide`: the total size of a wide segment; 0 for any other.
size_t encode_head(const SegmentToWrite &segment, MutableBytes out, Packer *packer, size_t wide)
{
    constexpr size_t before = kPrefixSize + SegmentHead::kFixed;
    // The data begins on a page boundary of the image. Without data there is nothing to align.
    const auto whole = [&](size_t tables) -> size_t {
        return wide != 0 ? wide
               : segment.packages.empty()
                   ? before + tables
                   : align_page(segment.offset + before + tables) - segment.offset;
    };
    ByteWriter tables(out.subspan(before));
    for (const Package &p : segment.packages)
        put_package_tail(tables, p);
    for (const Extent &e : segment.extents)
        put_extent(tables, e);
    assert(tables.ok());
    const Bytes frame = packer != nullptr ? pack_tables(*packer, tables.written()) : Bytes();
    const bool packed = !frame.empty() && whole(frame.size()) < whole(tables.size());
    const size_t total = whole(packed ? frame.size() : tables.size());

    ByteWriter to(out.subspan(kPrefixSize, SegmentHead::kFixed));
    to.put(segment.first_block);
    to.put(segment.first_package);
    to.put(uint32_t(segment.packages.size()));
    to.put(uint32_t(segment.extents.size()));
    to.put(uint32_t(total - kPrefixSize));
    to.put(uint32_t(packed ? frame.size() : 0));
    if (packed)
        std::ranges::copy(frame, out.begin() + before);
    std::ranges::fill(out.first(total).subspan(before + (packed ? frame.size() : tables.size())),
                      uint8_t(0));

    uint64_t end = segment.offset + total;
    for (Package &p : segment.packages) {
        p.offset = package_start(end, p.codec);
        end = p.offset + p.stored;
    }
    assert(end == segment.offset + total + segment.data_size);

    RecordPrefix prefix{.type = RecordType::segment,
                        .flags = kRequired,
                        .length = total - kPrefixSize + segment.data_size};
    if (wide != 0 || packed) {
        prefix.version = packed ? kPackedSegmentVersion : kWideSegmentVersion;
        prefix.flags |= kRequiredVersion;
    }
    std::ranges::copy(prefix.encode(out.first(total).subspan(kPrefixSize)), out.begin());
    return total;
}

} // namespace

size_t encode_segment_head(const SegmentToWrite &segment, MutableBytes out, Packer *packer)
{
    return encode_head(segment, out, packer, 0);
}

void encode_wide_head(const SegmentToWrite &segment, MutableBytes out)
{
    encode_head(segment, out, nullptr, out.size());
}

Result<size_t> SegmentHead::size(std::span<const uint8_t, kFixed> fixed, uint16_t version,
                                 uint64_t payload_size)
{
    ByteReader from(Bytes(fixed).subspan(16));
    uint64_t packages = from.get<uint32_t>();
    uint64_t extents = from.get<uint32_t>();
    uint64_t size = from.get<uint32_t>();
    uint64_t packed = from.get<uint32_t>();
    uint64_t tables = packed != 0 ? packed : tables_size(packages, extents);
    if (packages > kMaxSegmentPackages || extents > kMaxSegmentExtents || size < kFixed + tables ||
        size > kMaxSegmentHead || size > payload_size ||
        (packed != 0 && version < kPackedSegmentVersion))
        return damaged("a segment's head has an impossible size");
    if (payload_size - size > kWideSegmentData + kMaxSegmentPackages * kPageSize)
        return damaged(fmt::format("a segment claims {} bytes of data", payload_size - size));
    return size_t(size);
}

Result<SegmentHead> SegmentHead::parse(Bytes head, uint16_t version, uint64_t payload_offset,
                                       uint64_t payload_size, uint32_t package_blocks)
{
    if (head.size() < kFixed)
        return damaged("a segment is too short");
    auto total = size(head.first<kFixed>(), version, payload_size);
    if (!total)
        return total.error();
    if (*total != head.size())
        return damaged("a segment's head has another size than it says");
    ByteReader from(head);
    SegmentHead out;
    out.first_block_ = from.get<uint64_t>();
    out.first_package_ = from.get<uint64_t>();
    auto packages = from.get<uint32_t>();
    auto extents = from.get<uint32_t>();
    from.get<uint32_t>();
    auto packed = from.get<uint32_t>();
    if (out.first_block_ > kMaxPage || out.first_package_ > kMaxPage)
        return damaged("a segment's head has impossible numbers");
    const size_t plain = tables_size(packages, extents);
    const Bytes stored = from.bytes(packed != 0 ? packed : plain);
    const Bytes rest = from.bytes(from.left());
    if (!std::ranges::all_of(rest, [](uint8_t b) { return b == 0; }))
        return damaged("a segment's head has bytes that should be zero");
    std::vector<uint8_t> unpacked;
    if (packed != 0) {
        auto tables = unpack_tables(stored, plain);
        if (!tables)
            return tables.error();
        unpacked = std::move(*tables);
    }
    from = ByteReader(packed != 0 ? Bytes(unpacked) : stored);

    out.packages_.resize(packages);
    uint64_t end = payload_offset + head.size();
    for (Package &p : out.packages_) {
        if (!get_package_tail(from, p))
            return damaged("a segment's head has an impossible package");
        p.offset = package_start(end, p.codec);
        end = p.offset + p.stored;
    }
    if (end != payload_offset + payload_size)
        return damaged("a segment's packages do not fill its data");
    out.extents_.resize(extents);
    for (Extent &e : out.extents_) {
        e = get_extent(from);
        if (!plausible(e))
            return damaged("a segment's head has an impossible extent");
        if (e.kind != ExtentKind::data)
            continue;
        if (e.source != out.first_block_ + out.block_count_)
            return damaged("a segment's blocks are not in order");
        out.block_count_ += e.count;
    }
    // Every package is full but perhaps the last one.
    if ((out.block_count_ + package_blocks - 1) / package_blocks != packages ||
        out.first_block_ != out.first_package_ * package_blocks)
        return damaged("a segment's extents do not match its packages");
    return out;
}

} // namespace cryo::image
