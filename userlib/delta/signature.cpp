// SPDX-License-Identifier: Apache-2.0
#include "delta/signature.hpp"

#include <algorithm>
#include <bit>

#include "image/little_endian.hpp"

namespace cryo::delta {

namespace {

constexpr size_t kPiece = 1024 * 1024; // a whole number of blocks of every size

static_assert(sizeof(Digest) == 16 && std::endian::native == std::endian::little,
              "a digest in memory is as it is stored");

} // namespace

uint64_t block_count(uint64_t size, uint32_t block_size)
{
    return size / block_size + (size % block_size != 0);
}

bool is_block_size(uint64_t block_size)
{
    return block_size >= image::kPageSize && block_size <= kMaxBlock &&
           std::has_single_bit(block_size);
}

size_t Signature::block_bytes(uint64_t block) const
{
    return size_t(std::min<uint64_t>(block_size, size - block * block_size));
}

Digest Signature::content() const
{
    ContentHasher hasher(block_size, size);
    hasher.add(blocks);
    return hasher.digest();
}

bool Signature::has_same(const Signature &other, uint64_t block) const
{
    return block < other.blocks.size() && block_bytes(block) == other.block_bytes(block) &&
           blocks[block] == other.blocks[block];
}

ContentHasher::ContentHasher(uint32_t block_size, uint64_t size)
{
    uint8_t bytes[12];
    image::ByteWriter to(bytes);
    to.put(block_size);
    to.put(size);
    hasher_.add(bytes);
}

void ContentHasher::add(std::span<const Digest> blocks)
{
    hasher_.add(stored_form(blocks));
}

Result<Signature> sign(ByteSource &source, uint32_t block_size, const Progress &progress)
{
    Signature out{.block_size = block_size, .size = source.size(), .blocks = {}};
    out.blocks.reserve(block_count(out.size, block_size));
    std::vector<uint8_t> piece(std::min<uint64_t>(kPiece, out.size));
    for (uint64_t at = 0; at < out.size; at += kPiece) {
        auto now = MutableBytes(piece).first(std::min<uint64_t>(kPiece, out.size - at));
        if (auto ok = source.read(at, now); !ok)
            return ok.error();
        for (size_t i = 0; i < now.size(); i += block_size)
            out.blocks.push_back(
                image::checksum128(now.subspan(i, std::min<size_t>(block_size, now.size() - i))));
        if (progress)
            progress(at + now.size(), out.size);
    }
    return out;
}

uint64_t count_changed(const Signature &now, const Signature &before)
{
    uint64_t changed = 0;
    for (uint64_t i = 0; i < now.blocks.size(); i++)
        changed += !now.has_same(before, i);
    return changed;
}

Bytes stored_form(std::span<const Digest> digests)
{
    return {reinterpret_cast<const uint8_t *>(digests.data()), digests.size_bytes()};
}

} // namespace cryo::delta
