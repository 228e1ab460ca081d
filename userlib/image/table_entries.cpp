// SPDX-License-Identifier: Apache-2.0
#include "image/table_entries.hpp"

namespace cryo::image {

namespace {

// Packing smaller tables saves nothing, and every reader knows plain ones.
constexpr size_t kWorthPacking = 1024;

} // namespace

Bytes pack_tables(Packer &packer, Bytes tables)
{
    if (tables.size() < kWorthPacking)
        return {};
    const Packer::Packed packed = packer.pack(tables);
    return packed.codec == Codec::zstd ? packed.bytes : Bytes();
}

Result<std::vector<uint8_t>> unpack_tables(Bytes frame, size_t size)
{
    std::vector<uint8_t> tables(size);
    if (!Unpacker().unpack(Codec::zstd, frame, tables))
        return damaged("tables cannot be unpacked");
    return tables;
}

} // namespace cryo::image
