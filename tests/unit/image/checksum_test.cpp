// SPDX-License-Identifier: Apache-2.0
//
// Checksums are XXH3 as its own library defines it, on every instruction set.
#include <gtest/gtest.h>
#include <random>
#include <vector>
#include <xxhash.h>

#include "image/checksum.hpp"

namespace cryo::image {
namespace {

std::vector<uint8_t> noise(size_t size)
{
    std::minstd_rand random(3);
    std::vector<uint8_t> out(size);
    for (uint8_t &b : out)
        b = uint8_t(random() >> 8);
    return out;
}

std::vector<size_t> lengths()
{
    std::vector<size_t> out;
    for (size_t i = 0; i <= 1100; i++)
        out.push_back(i);
    for (size_t i : {4095u, 4096u, 16384u, 65535u, 262144u, 262145u})
        out.push_back(i);
    return out;
}

TEST(Checksum, IsXxh3)
{
    std::vector<uint8_t> bytes = noise(262145 + 1);
    for (size_t length : lengths())
        for (size_t offset : {0u, 1u}) { // aligned and not
            Bytes now = Bytes(bytes).subspan(offset, length);
            XXH128_hash_t wide = XXH3_128bits(now.data(), length);
            EXPECT_EQ(checksum128(now), (Digest{wide.low64, wide.high64})) << length;
            EXPECT_EQ(checksum64(now), XXH3_64bits(now.data(), length)) << length;
            Bytes prefix = Bytes(bytes).first(16);
            EXPECT_EQ(record_checksum(prefix, now),
                      XXH3_64bits_withSeed(now.data(), length, XXH3_64bits(prefix.data(), 16)))
                << length;
        }
}

TEST(Checksum, InPiecesIsTheSame)
{
    std::vector<uint8_t> bytes = noise(300'000);
    std::minstd_rand random(5);
    for (int round = 0; round < 50; round++) {
        Hasher hasher;
        for (Bytes rest = bytes; !rest.empty();) {
            size_t n = std::min<size_t>(rest.size(), random() % (round % 2 ? 300 : 70'000));
            hasher.add(rest.first(n));
            rest = rest.subspan(n);
        }
        EXPECT_EQ(hasher.digest(), checksum128(bytes));
    }
}

} // namespace
} // namespace cryo::image
