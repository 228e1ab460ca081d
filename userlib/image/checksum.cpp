// SPDX-License-Identifier: Apache-2.0
#include "image/checksum.hpp"

#include <new>

// Dispatches XXH3 to the widest vector instructions of this processor: AVX2 or AVX-512 make it
// twice as fast as SSE2, which is all that may be assumed.
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include "image/little_endian.hpp"

namespace cryo::image {

std::array<uint8_t, 16> Digest::bytes() const
{
    std::array<uint8_t, 16> out;
    store_le(out.data(), low);
    store_le(out.data() + 8, high);
    return out;
}

Digest Digest::from_bytes(std::span<const uint8_t, 16> bytes)
{
    return {load_le<uint64_t>(bytes.data()), load_le<uint64_t>(bytes.data() + 8)};
}

std::string Digest::hex() const
{
    static constexpr char digits[] = "0123456789abcdef";
    std::string out;
    for (uint8_t b : bytes()) {
        out += digits[b >> 4];
        out += digits[b & 15];
    }
    return out;
}

uint64_t checksum64(Bytes bytes)
{
    return XXH3_64bits(bytes.data(), bytes.size());
}

Digest checksum128(Bytes bytes)
{
    XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
    return {h.low64, h.high64};
}

Hasher::Hasher() : state_(XXH3_createState())
{
    if (!state_)
        throw std::bad_alloc();
    reset();
}
Hasher::Hasher(Hasher &&) noexcept = default;
Hasher &Hasher::operator=(Hasher &&) noexcept = default;
Hasher::~Hasher() = default;

void Hasher::Free::operator()(XXH3_state_s *state) const
{
    XXH3_freeState(state);
}

void Hasher::reset()
{
    XXH3_128bits_reset(state_.get());
}

void Hasher::add(Bytes bytes)
{
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

Digest Hasher::digest() const
{
    XXH128_hash_t h = XXH3_128bits_digest(state_.get());
    return {h.low64, h.high64};
}

uint64_t record_checksum(Bytes prefix_start, Bytes covered)
{
    // A seed made of the prefix ties it to the payload without a second pass.
    return XXH3_64bits_withSeed(covered.data(), covered.size(),
                                XXH3_64bits(prefix_start.data(), prefix_start.size()));
}

} // namespace cryo::image
