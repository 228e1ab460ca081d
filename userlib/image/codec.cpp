// SPDX-License-Identifier: Apache-2.0
#include "image/codec.hpp"

#include <algorithm>
#include <cstring>
#include <lz4.h>
#include <zstd.h>

#include "image/shuffle.hpp"

namespace cryo::image {

namespace {

constexpr int kZstdLevel = 1;
constexpr size_t kTrialPages = 4; // all of a 16 KiB package, a sixteenth of a 256 KiB one

// A smaller saving is not worth the unpacking, nor giving up the mapping of raw packages.
size_t worthwhile(size_t size)
{
    return size - size / 16;
}

char *chars(uint8_t *p)
{
    return reinterpret_cast<char *>(p);
}

const char *chars(const uint8_t *p)
{
    return reinterpret_cast<const char *>(p);
}

} // namespace

void Packer::FreeContext::operator()(ZSTD_CCtx_s *context) const
{
    ZSTD_freeCCtx(context);
}

void Unpacker::FreeContext::operator()(ZSTD_DCtx_s *context) const
{
    ZSTD_freeDCtx(context);
}

Packer::Packer(Packing packing) : packing_(packing) {}
Packer::~Packer() = default;

Unpacker::Unpacker() = default;
Unpacker::~Unpacker() = default;

size_t Packer::try_codec(Codec codec, Bytes in, MutableBytes out)
{
    switch (codec) {
    case Codec::shuffle_lz4:
        shuffled_.resize(std::max(shuffled_.size(), in.size()));
        shuffle8(in, MutableBytes(shuffled_).first(in.size()));
        in = Bytes(shuffled_).first(in.size());
        [[fallthrough]];
    case Codec::lz4: {
        int n = LZ4_compress_default(chars(in.data()), chars(out.data()), int(in.size()),
                                     int(out.size()));
        return n > 0 ? size_t(n) : 0;
    }
    case Codec::zstd: {
        if (!zstd_)
            zstd_.reset(ZSTD_createCCtx());
        size_t n = zstd_ ? ZSTD_compressCCtx(zstd_.get(), out.data(), out.size(), in.data(),
                                             in.size(), kZstdLevel)
                         : 0;
        return ZSTD_isError(n) ? 0 : n;
    }
    case Codec::raw:
        break;
    }
    return 0;
}

// Samples pages across the whole package, as programs place different data side by side.
Codec Packer::choose(Bytes package)
{
    uint8_t trial[kTrialPages * kPageSize];
    size_t pages = package.size() / kPageSize;
    size_t taken = std::min(pages, kTrialPages);
    for (size_t i = 0; i < taken; i++)
        memcpy(trial + i * kPageSize, package.data() + i * pages / taken * kPageSize, kPageSize);
    Bytes sample = Bytes(trial).first(taken * kPageSize);

    Codec best = Codec::raw;
    size_t least = worthwhile(sample.size());
    for (Codec codec : {Codec::lz4, Codec::shuffle_lz4}) {
        size_t n = try_codec(codec, sample, MutableBytes(packed_).first(least));
        if (n) {
            least = n;
            best = codec;
        }
    }
    // Zstandard takes two to three times as long: only for an eighth less.
    if (packing_ == Packing::smallest &&
        try_codec(Codec::zstd, sample, MutableBytes(packed_).first(least - least / 8)))
        best = Codec::zstd;
    return best;
}

Packing packing_of(std::string_view compress)
{
    return compress == "auto"     ? Packing::spare
           : compress == "always" ? Packing::automatic
                                  : Packing::raw;
}

Packer::Packed Packer::pack(Bytes package)
{
    if (packing_ == Packing::raw)
        return {Codec::raw, package};
    packed_.resize(std::max(packed_.size(), package.size()));
    Codec codec = packing_ == Packing::lz4           ? Codec::lz4
                  : packing_ == Packing::zstd        ? Codec::zstd
                  : packing_ == Packing::shuffle_lz4 ? Codec::shuffle_lz4
                                                     : choose(package);
    size_t n = 0;
    if (codec != Codec::raw)
        n = try_codec(codec, package, MutableBytes(packed_).first(worthwhile(package.size())));
    if (!n)
        return {Codec::raw, package};
    return {codec, Bytes(packed_).first(n)};
}

bool Unpacker::unpack(Codec codec, Bytes stored, MutableBytes package)
{
    switch (codec) {
    case Codec::raw:
        if (stored.size() != package.size())
            return false;
        memcpy(package.data(), stored.data(), stored.size());
        return true;
    case Codec::lz4:
        return LZ4_decompress_safe(chars(stored.data()), chars(package.data()), int(stored.size()),
                                   int(package.size())) == int(package.size());
    case Codec::zstd: {
        if (!zstd_)
            zstd_.reset(ZSTD_createDCtx());
        return zstd_ && ZSTD_decompressDCtx(zstd_.get(), package.data(), package.size(),
                                            stored.data(), stored.size()) == package.size();
    }
    case Codec::shuffle_lz4: {
        shuffled_.resize(std::max(shuffled_.size(), package.size()));
        MutableBytes words = MutableBytes(shuffled_).first(package.size());
        if (!unpack(Codec::lz4, stored, words))
            return false;
        unshuffle8(words, package);
        return true;
    }
    }
    return false;
}

} // namespace cryo::image
