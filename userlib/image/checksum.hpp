// SPDX-License-Identifier: Apache-2.0
//
// XXH3, the format's checksum: 64 bits for records, 128 bits for packages and whole images, and
// the 128-bit identity of an image. Stored low half first, little-endian.
//
//     Hasher h;
//     h.add(header);
//     h.add(metadata);
//     Digest d = h.digest();
#pragma once

#include <array>
#include <compare>
#include <memory>
#include <string>

#include "image/format.hpp"

struct XXH3_state_s;

namespace cryo::image {

// 128 bits: a checksum, or the identity of an image.
struct Digest {
    uint64_t low = 0;
    uint64_t high = 0;

    auto operator<=>(const Digest &) const = default;
    explicit operator bool() const { return low || high; }

    std::array<uint8_t, 16> bytes() const;
    static Digest from_bytes(std::span<const uint8_t, 16> bytes);
    std::string hex() const; // 32 digits, in the order of bytes()
};

uint64_t checksum64(Bytes bytes);
Digest checksum128(Bytes bytes);

// A 128-bit checksum taken in pieces.
class Hasher
{
  public:
    Hasher();
    Hasher(Hasher &&) noexcept;
    Hasher &operator=(Hasher &&) noexcept;
    ~Hasher();

    void reset();
    void add(Bytes bytes);
    Digest digest() const; // of the bytes added so far; more may follow

  private:
    struct Free {
        void operator()(XXH3_state_s *state) const;
    };
    std::unique_ptr<XXH3_state_s, Free> state_;
};

// The checksum in a record's prefix: XXH3-64 of `covered` (the payload; for a segment only its
// head) with XXH3-64 of the first 16 bytes of the prefix as its seed.
uint64_t record_checksum(Bytes prefix_start, Bytes covered);

} // namespace cryo::image
