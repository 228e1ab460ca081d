// SPDX-License-Identifier: Apache-2.0
#include "image/tables.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <fmt/format.h>

#include "image/header.hpp"
#include "image/little_endian.hpp"

namespace cryo::image {

namespace {

constexpr size_t kSegmentPackageEntry = 24;
constexpr size_t kPartEntry = 80;
constexpr size_t kDirectoryFixed = 8;
static_assert(kMaxSegmentPackages == kSegmentData / (kMinPackageBlocks * kPageSize));
static_assert(kMaxSegmentPackages == kWideSegmentData / (kMaxPackageBlocks * kPageSize));

constexpr uint64_t align_page(uint64_t n)
{
    return (n + kPageSize - 1) / kPageSize * kPageSize;
}

void put_digest(ByteWriter &to, const Digest &d)
{
    to.put(d.low);
    to.put(d.high);
}

Digest get_digest(ByteReader &from)
{
    uint64_t low = from.get<uint64_t>();
    return {low, from.get<uint64_t>()};
}

void put_extent(ByteWriter &to, const Extent &e)
{
    to.put(e.object);
    to.put(static_cast<uint32_t>(e.kind));
    to.put(e.page);
    to.put(e.count);
    to.put(e.source);
}

Extent get_extent(ByteReader &from)
{
    Extent e;
    e.object = from.get<uint32_t>();
    e.kind = static_cast<ExtentKind>(from.get<uint32_t>());
    e.page = from.get<uint64_t>();
    e.count = from.get<uint64_t>();
    e.source = from.get<uint64_t>();
    return e;
}

// Numbers that can be added without wrapping, kinds that we know.
bool plausible(const Extent &e)
{
    if (e.page > kMaxPage || e.count == 0 || e.count > kMaxPage - e.page || e.source > kMaxPage)
        return false;
    if (e.kind == ExtentKind::zero)
        return e.source == 0;
    return e.kind == ExtentKind::data || e.kind == ExtentKind::base;
}

void put_package_tail(ByteWriter &to, const Package &p)
{
    to.put(p.stored);
    to.put(static_cast<uint32_t>(p.codec)); // one byte and three that are zero
    put_digest(to, p.checksum);
}

// A codec that we know, and a size that can be.
bool plausible_package(uint32_t stored, uint32_t codec)
{
    return codec < kCodecCount && stored > 0 && stored <= kMaxPackageBlocks * kPageSize;
}

bool get_package_tail(ByteReader &from, Package &p)
{
    p.stored = from.get<uint32_t>();
    auto codec = from.get<uint32_t>();
    p.codec = static_cast<Codec>(codec);
    p.checksum = get_digest(from);
    return plausible_package(p.stored, codec);
}

// Where the fields of a package are in its entry of the index.
constexpr size_t kStoredAt = 8;
constexpr size_t kCodecAt = 12;

} // namespace

bool Extent::continues_with(const Extent &next) const
{
    return object == next.object && kind == next.kind && end() == next.page &&
           (kind == ExtentKind::zero || source + count == next.source);
}

uint64_t package_start(uint64_t end_of_previous, Codec codec)
{
    return codec == Codec::raw ? align_page(end_of_previous) : end_of_previous;
}

size_t segment_tables(size_t packages, size_t extents)
{
    return kPrefixSize + SegmentHead::kFixed + packages * kSegmentPackageEntry +
           extents * IndexPart::kExtentEntry;
}

// SEGMENT payload: u64 first block, u64 first package, u32 packages, u32 extents, u32 size of the
// head, u32 zero; packages of 24 bytes; extents of 32 bytes; zeros; then the data.
size_t encode_segment_head(uint64_t offset, uint64_t first_block, uint64_t first_package,
                           std::span<Package> packages, std::span<const Extent> extents,
                           uint64_t data_size, MutableBytes out, size_t wide)
{
    size_t tables = segment_tables(packages.size(), extents.size());
    // The data begins on a page boundary of the image. Without data there is nothing to align.
    size_t total = wide != 0          ? wide
                   : packages.empty() ? tables
                                      : size_t(align_page(offset + tables) - offset);

    ByteWriter to(out.subspan(kPrefixSize));
    to.put(first_block);
    to.put(first_package);
    to.put(uint32_t(packages.size()));
    to.put(uint32_t(extents.size()));
    to.put(uint32_t(total - kPrefixSize));
    to.put(uint32_t(0));
    uint64_t end = offset + total;
    for (Package &p : packages) {
        p.offset = package_start(end, p.codec);
        end = p.offset + p.stored;
        put_package_tail(to, p);
    }
    for (const Extent &e : extents)
        put_extent(to, e);
    to.zeros(total - kPrefixSize - to.size());
    assert(to.ok() && end == offset + total + data_size);

    RecordPrefix prefix{
        .type = RecordType::segment, .flags = kRequired, .length = total - kPrefixSize + data_size};
    if (wide != 0) {
        prefix.version = kWideSegmentVersion;
        prefix.flags |= kRequiredVersion;
    }
    std::ranges::copy(prefix.encode(to.written()), out.begin());
    return total;
}

Result<size_t> SegmentHead::size(std::span<const uint8_t, kFixed> fixed, uint64_t payload_size)
{
    ByteReader from(Bytes(fixed).subspan(16));
    uint64_t packages = from.get<uint32_t>();
    uint64_t extents = from.get<uint32_t>();
    uint64_t size = from.get<uint32_t>();
    uint64_t tables = kFixed + packages * kSegmentPackageEntry + extents * IndexPart::kExtentEntry;
    if (packages > kMaxSegmentPackages || extents > kMaxSegmentExtents || size < tables ||
        size > kMaxSegmentHead || size > payload_size)
        return damaged("a segment's head has an impossible size");
    if (payload_size - size > kWideSegmentData + kMaxSegmentPackages * kPageSize)
        return damaged(fmt::format("a segment claims {} bytes of data", payload_size - size));
    return size_t(size);
}

Result<SegmentHead> SegmentHead::parse(Bytes head, uint64_t payload_offset, uint64_t payload_size,
                                       uint32_t package_blocks)
{
    if (head.size() < kFixed)
        return damaged("a segment is too short");
    auto total = size(head.first<kFixed>(), payload_size);
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
    if (from.get<uint32_t>() || out.first_block_ > kMaxPage || out.first_package_ > kMaxPage)
        return damaged("a segment's head has impossible numbers");

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
    Bytes rest = from.bytes(from.left());
    if (!std::all_of(rest.begin(), rest.end(), [](uint8_t b) { return b == 0; }))
        return damaged("a segment's head has bytes that should be zero");
    return out;
}

// INDEX_PART payload: u64 first package, u32 segments, u32 packages, u32 extents, u32 zero;
// segments of 16 bytes, packages of 32, extents of 32, the latter in ascending order of (object,
// page).
Result<IndexPart> IndexPart::parse(Bytes payload)
{
    ByteReader from(payload);
    IndexPart out;
    out.first_package_ = from.get<uint64_t>();
    uint64_t segments = from.get<uint32_t>();
    uint64_t packages = from.get<uint32_t>();
    uint64_t extents = from.get<uint32_t>();
    uint32_t zero = from.get<uint32_t>();
    out.segments_ = from.bytes(segments * kSegmentEntry);
    out.packages_ = from.bytes(packages * kPackageEntry);
    out.extents_ = from.bytes(extents * kExtentEntry);
    if (!from.ok() || !from.at_end() || zero || out.first_package_ > kMaxPage)
        return damaged("a part of the index has another size than it says");

    for (size_t at = 0; at < out.packages_.size(); at += kPackageEntry) {
        const uint8_t *entry = out.packages_.data() + at;
        if (!plausible_package(load_le<uint32_t>(entry + kStoredAt),
                               load_le<uint32_t>(entry + kCodecAt)))
            return damaged("the index has an impossible package");
    }
    for (uint64_t i = 0; i < extents; i++) {
        Extent e = out.extent(i);
        if (!plausible(e))
            return damaged("the index has an impossible extent");
        if (i) {
            Extent previous = out.extent(i - 1);
            if (!previous.before(e) || (previous.object == e.object && previous.end() > e.page))
                return damaged(
                    fmt::format("the index has object {} page {} twice", e.object, e.page));
        }
    }
    return out;
}

ByteRange IndexPart::segment(size_t i) const
{
    ByteReader from(segments_.subspan(i * kSegmentEntry));
    uint64_t offset = from.get<uint64_t>();
    return {offset, from.get<uint64_t>()};
}

Package IndexPart::package(size_t i) const
{
    ByteReader from(packages_.subspan(i * kPackageEntry));
    Package p;
    p.offset = from.get<uint64_t>();
    get_package_tail(from, p);
    return p;
}

size_t IndexPart::raw_row(size_t i, uint64_t size) const
{
    size_t count = 0;
    uint64_t expected = 0;
    for (; i < package_count(); i++, count++) {
        const uint8_t *entry = packages_.data() + i * kPackageEntry;
        const auto offset = load_le<uint64_t>(entry);
        if (load_le<uint32_t>(entry + kCodecAt) != static_cast<uint32_t>(Codec::raw) ||
            load_le<uint32_t>(entry + kStoredAt) != size || (count != 0 && offset != expected))
            break;
        expected = offset + size;
    }
    return count;
}

Extent IndexPart::extent(size_t i) const
{
    ByteReader from(extents_.subspan(i * kExtentEntry));
    return get_extent(from);
}

size_t IndexPart::lower_bound(uint32_t object, uint64_t page) const
{
    size_t low = 0;
    size_t high = extent_count();
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        Extent e = extent(middle);
        if (e.object < object || (e.object == object && e.end() <= page))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void IndexBuilder::add_segment(const ByteRange &record, std::span<const Package> packages,
                               std::span<const Extent> extents)
{
    segments_.push_back(record);
    packages_.insert(packages_.end(), packages.begin(), packages.end());
    for (const Extent &e : extents) {
        if (!extents_.empty() && extents_.back().continues_with(e))
            extents_.back().count += e.count;
        else
            extents_.push_back(e);
    }
}

bool IndexBuilder::full() const
{
    constexpr size_t next = IndexPart::kSegmentEntry +
                            kMaxSegmentPackages * IndexPart::kPackageEntry +
                            kMaxSegmentExtents * IndexPart::kExtentEntry;
    size_t used = IndexPart::kFixed + segments_.size() * IndexPart::kSegmentEntry +
                  packages_.size() * IndexPart::kPackageEntry +
                  extents_.size() * IndexPart::kExtentEntry;
    return used + next > limit_;
}

Result<std::vector<uint8_t>> IndexBuilder::take()
{
    std::ranges::sort(extents_, [](const Extent &a, const Extent &b) { return a.before(b); });
    size_t kept = 0; // join neighbours in place
    for (const Extent &e : extents_) {
        Extent *previous = kept ? &extents_[kept - 1] : nullptr;
        if (previous && previous->object == e.object && previous->end() > e.page)
            return Error(EINVAL,
                         fmt::format("object {} page {:#x} was added twice", e.object, e.page));
        if (previous && previous->continues_with(e))
            previous->count += e.count;
        else
            extents_[kept++] = e;
    }
    extents_.resize(kept);
    std::vector<uint8_t> payload(IndexPart::kFixed + segments_.size() * IndexPart::kSegmentEntry +
                                 packages_.size() * IndexPart::kPackageEntry +
                                 extents_.size() * IndexPart::kExtentEntry);
    ByteWriter to(payload);
    to.put(first_package_);
    to.put(uint32_t(segments_.size()));
    to.put(uint32_t(packages_.size()));
    to.put(uint32_t(extents_.size()));
    to.put(uint32_t(0));
    for (const ByteRange &s : segments_) {
        to.put(s.offset);
        to.put(s.length);
    }
    for (const Package &p : packages_) {
        to.put(p.offset);
        put_package_tail(to, p);
    }
    for (const Extent &e : extents_)
        put_extent(to, e);
    assert(to.ok() && to.size() == payload.size());
    first_package_ += packages_.size();
    segments_.clear();
    packages_.clear();
    extents_.clear();
    return payload;
}

PartEntry PartEntry::describe(const ByteRange &record, Bytes payload, const IndexPart &part)
{
    PartEntry e;
    e.record = record;
    e.checksum = checksum128(payload);
    e.first_package = part.first_package();
    e.package_count = part.package_count();
    if (size_t n = part.extent_count()) {
        Extent first = part.extent(0);
        Extent last = part.extent(n - 1);
        e.first_object = first.object;
        e.first_page = first.page;
        e.last_object = last.object;
        e.end_page = last.end();
    }
    return e;
}

bool PartEntry::may_hold(uint32_t object, uint64_t page) const
{
    bool from_first = object > first_object || (object == first_object && page >= first_page);
    bool to_last = object < last_object || (object == last_object && page < end_page);
    return from_first && to_last;
}

// DIRECTORY payload: u32 parts, u32 zero, then 80 bytes for each part.
std::vector<uint8_t> encode_directory(std::span<const PartEntry> parts)
{
    std::vector<uint8_t> payload(kDirectoryFixed + parts.size() * kPartEntry);
    ByteWriter to(payload);
    to.put(uint32_t(parts.size()));
    to.put(uint32_t(0));
    for (const PartEntry &e : parts) {
        to.put(e.record.offset);
        to.put(e.record.length);
        put_digest(to, e.checksum);
        to.put(e.first_package);
        to.put(e.package_count);
        to.put(e.first_object);
        to.put(e.last_object);
        to.put(e.first_page);
        to.put(e.end_page);
        to.put(uint64_t(0));
    }
    assert(to.ok() && to.size() == payload.size());
    return payload;
}

Result<std::vector<PartEntry>> decode_directory(Bytes payload)
{
    ByteReader from(payload);
    uint64_t count = from.get<uint32_t>();
    uint32_t zero = from.get<uint32_t>();
    if (!from.ok() || zero || count > kMaxParts || from.left() != count * kPartEntry)
        return damaged("the directory has another size than it says");
    std::vector<PartEntry> parts(count);
    for (PartEntry &e : parts) {
        e.record.offset = from.get<uint64_t>();
        e.record.length = from.get<uint64_t>();
        e.checksum = get_digest(from);
        e.first_package = from.get<uint64_t>();
        e.package_count = from.get<uint64_t>();
        e.first_object = from.get<uint32_t>();
        e.last_object = from.get<uint32_t>();
        e.first_page = from.get<uint64_t>();
        e.end_page = from.get<uint64_t>();
        if (from.get<uint64_t>())
            return damaged("the directory has bytes that should be zero");
    }
    return parts;
}

} // namespace cryo::image
