// SPDX-License-Identifier: Apache-2.0
#include "image/shuffle.hpp"

#include <cassert>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace cryo::image {

namespace {

constexpr size_t kWord = 8;
constexpr size_t kTile = 128; // 16 words: one vector of each of the eight bytes

#ifdef __SSE2__

__m128i load(const uint8_t *from)
{
    return _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
}

void store(uint8_t *to, __m128i v)
{
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), v);
}

// A 16 × 8 byte matrix lies in eight registers, row by row. Interleaving register i with i + 4
// bytewise moves one bit of a byte's address from one end to the other: seven address bits, of
// which four rounds bring those of the column up, three those of the row.
void interleave(__m128i (&v)[8])
{
    __m128i t[8];
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm_unpacklo_epi8(v[i], v[i + 4]);
        t[2 * i + 1] = _mm_unpackhi_epi8(v[i], v[i + 4]);
    }
    for (int i = 0; i < 8; i++)
        v[i] = t[i];
}

void shuffle_tile(const uint8_t *in, uint8_t *out, size_t words)
{
    __m128i v[8];
    for (size_t i = 0; i < 8; i++)
        v[i] = load(in + 16 * i);
    for (int round = 0; round < 4; round++)
        interleave(v);
    for (size_t i = 0; i < 8; i++)
        store(out + i * words, v[i]);
}

void unshuffle_tile(const uint8_t *in, uint8_t *out, size_t words)
{
    __m128i v[8];
    for (size_t i = 0; i < 8; i++)
        v[i] = load(in + i * words);
    for (int round = 0; round < 3; round++)
        interleave(v);
    for (size_t i = 0; i < 8; i++)
        store(out + 16 * i, v[i]);
}

#else

void shuffle_tile(const uint8_t *in, uint8_t *out, size_t words)
{
    for (size_t w = 0; w < kTile / kWord; w++)
        for (size_t b = 0; b < kWord; b++)
            out[b * words + w] = in[w * kWord + b];
}

void unshuffle_tile(const uint8_t *in, uint8_t *out, size_t words)
{
    for (size_t w = 0; w < kTile / kWord; w++)
        for (size_t b = 0; b < kWord; b++)
            out[w * kWord + b] = in[b * words + w];
}

#endif

} // namespace

void shuffle8(Bytes in, MutableBytes out)
{
    assert(in.size() == out.size() && in.size() % kTile == 0);
    size_t words = in.size() / kWord;
    for (size_t w = 0; w < words; w += kTile / kWord)
        shuffle_tile(in.data() + w * kWord, out.data() + w, words);
}

void unshuffle8(Bytes in, MutableBytes out)
{
    assert(in.size() == out.size() && in.size() % kTile == 0);
    size_t words = in.size() / kWord;
    for (size_t w = 0; w < words; w += kTile / kWord)
        unshuffle_tile(in.data() + w, out.data() + w * kWord, words);
}

} // namespace cryo::image
