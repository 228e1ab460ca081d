// SPDX-License-Identifier: Apache-2.0
//
// The entries that tables are made of, and packed tables: one Zstandard frame in their place, which
// the record's version indicates. Where pages are scattered, the entries for them repeat most of
// their bytes, so that packing pays.
#pragma once

#include <vector>

#include "image/header.hpp"
#include "image/little_endian.hpp"
#include "image/tables.hpp"

namespace cryo::image {

inline void put_digest(ByteWriter &to, const Digest &d)
{
    to.put(d.low);
    to.put(d.high);
}

inline Digest get_digest(ByteReader &from)
{
    uint64_t low = from.get<uint64_t>();
    return {low, from.get<uint64_t>()};
}

inline void put_extent(ByteWriter &to, const Extent &e)
{
    to.put(e.object);
    to.put(static_cast<uint32_t>(e.kind));
    to.put(e.page);
    to.put(e.count);
    to.put(e.source);
}

inline Extent get_extent(ByteReader &from)
{
    Extent e;
    e.object = from.get<uint32_t>();
    e.kind = static_cast<ExtentKind>(from.get<uint32_t>());
    e.page = from.get<uint64_t>();
    e.count = from.get<uint64_t>();
    e.source = from.get<uint64_t>();
    return e;
}

// True if the numbers can be added without wrapping and the kind is known.
inline bool plausible(const Extent &e)
{
    if (e.page > kMaxPage || e.count == 0 || e.count > kMaxPage - e.page || e.source > kMaxPage)
        return false;
    if (e.kind == ExtentKind::zero)
        return e.source == 0;
    return e.kind == ExtentKind::data || e.kind == ExtentKind::base;
}

inline void put_package_tail(ByteWriter &to, const Package &p)
{
    to.put(p.stored);
    to.put(static_cast<uint32_t>(p.codec)); // one byte and three that are zero
    put_digest(to, p.checksum);
}

// True if the codec is known and the size is possible.
inline bool plausible_package(uint32_t stored, uint32_t codec)
{
    return codec < kCodecCount && stored > 0 && stored <= kMaxPackageBlocks * kPageSize;
}

inline bool get_package_tail(ByteReader &from, Package &p)
{
    p.stored = from.get<uint32_t>();
    auto codec = from.get<uint32_t>();
    p.codec = static_cast<Codec>(codec);
    p.checksum = get_digest(from);
    return plausible_package(p.stored, codec);
}

// Returns the frame, valid until the packer is used again; empty if packing does not pay.
Bytes pack_tables(Packer &packer, Bytes tables);
// Unpacks tables that must have exactly `size` bytes.
Result<std::vector<uint8_t>> unpack_tables(Bytes frame, size_t size);

} // namespace cryo::image
