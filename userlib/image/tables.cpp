// SPDX-License-Identifier: Apache-2.0
#include "image/tables.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <fmt/format.h>

#include "image/table_entries.hpp"

namespace cryo::image {

namespace {

constexpr size_t kPartEntry = 80;
constexpr size_t kDirectoryFixed = 8;

// Offsets of a package's fields in its entry of the index.
constexpr size_t kStoredAt = 8;
constexpr size_t kCodecAt = 12;
// Offset of the frame's size in the payload.
constexpr size_t kPackedAt = 20;

} // namespace

bool Extent::continues_with(const Extent &next) const
{
    return object == next.object && kind == next.kind && end() == next.page &&
           (kind == ExtentKind::zero || source + count == next.source);
}

// INDEX_PART payload: u64 first package, u32 segments, u32 packages, u32 extents, u32 size of the
// frame, if packed; segments of 16 bytes, packages of 32, extents of 32, the latter in ascending
// order of (object, page).
Result<IndexPart> IndexPart::parse(Bytes payload, uint16_t version, std::vector<uint8_t> &unpacked)
{
    ByteReader from(payload);
    IndexPart out;
    out.first_package_ = from.get<uint64_t>();
    uint64_t segments = from.get<uint32_t>();
    uint64_t packages = from.get<uint32_t>();
    uint64_t extents = from.get<uint32_t>();
    uint32_t packed = from.get<uint32_t>();
    uint64_t size = segments * kSegmentEntry + packages * kPackageEntry + extents * kExtentEntry;
    if (!from.ok() || (packed != 0 && version < kPackedIndexVersion) ||
        from.left() != (packed != 0 ? packed : size) || size > kMaxRecord - kFixed ||
        out.first_package_ > kMaxPage)
        return damaged("a part of the index has another size than it says");
    if (packed != 0) {
        auto tables = unpack_tables(from.bytes(packed), size);
        if (!tables)
            return tables.error();
        unpacked = std::move(*tables);
        from = ByteReader(unpacked);
    }
    out.segments_ = from.bytes(segments * kSegmentEntry);
    out.packages_ = from.bytes(packages * kPackageEntry);
    out.extents_ = from.bytes(extents * kExtentEntry);

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

Bytes pack_index_part(Packer &packer, Bytes payload, std::vector<uint8_t> &packed)
{
    const Bytes frame = pack_tables(packer, payload.subspan(IndexPart::kFixed));
    if (frame.empty())
        return {};
    packed.assign(payload.begin(), payload.begin() + IndexPart::kFixed);
    store_le(packed.data() + kPackedAt, uint32_t(frame.size()));
    packed.insert(packed.end(), frame.begin(), frame.end());
    return packed;
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
