// SPDX-License-Identifier: Apache-2.0
//
// Packing one package of pages, and unpacking it.
//
//     Packer packer(Packing::automatic);                  // one per thread
//     Packer::Packed p = packer.pack(package);            // p.bytes: the package itself if raw
//
//     Unpacker unpacker;
//     if (!unpacker.unpack(p.codec, p.bytes, package)) ... // damaged
#pragma once

#include <array>
#include <memory>
#include <string_view>
#include <vector>

#include "image/format.hpp"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace cryo::image {

// How a writer chooses the codec of each package.
enum class Packing {
    raw,
    lz4,
    zstd,
    shuffle_lz4,
    automatic, // by a trial on a part of each package; raw where nothing helps
    smallest,  // automatic, plus zstd where it saves clearly more: size counts more than time
    spare,     // automatic while the output is the bottleneck, else raw
};

// Names in commands: none, auto (spare) or always (automatic).
inline constexpr std::array<const char *, 3> compress_names = {"none", "auto", "always"};
Packing packing_of(std::string_view compress);

class Packer
{
  public:
    explicit Packer(Packing packing);
    ~Packer();
    Packer(const Packer &) = delete;
    Packer &operator=(const Packer &) = delete;

    struct Packed {
        Codec codec;
        Bytes bytes; // valid until the next call; the input where the codec is raw
    };
    // Raw wherever packing would save less than a sixteenth.
    Packed pack(Bytes package);

  private:
    Codec choose(Bytes package);
    size_t try_codec(Codec codec, Bytes in, MutableBytes out); // 0: does not fit

    struct FreeContext {
        void operator()(ZSTD_CCtx_s *context) const;
    };

    Packing packing_;
    std::vector<uint8_t> shuffled_;
    std::vector<uint8_t> packed_;
    std::unique_ptr<ZSTD_CCtx_s, FreeContext> zstd_;
};

class Unpacker
{
  public:
    Unpacker();
    ~Unpacker();
    Unpacker(const Unpacker &) = delete;
    Unpacker &operator=(const Unpacker &) = delete;

    // False: not what a packer makes, or not exactly package.size() bytes. Never writes elsewhere.
    bool unpack(Codec codec, Bytes stored, MutableBytes package);

  private:
    struct FreeContext {
        void operator()(ZSTD_DCtx_s *context) const;
    };

    std::vector<uint8_t> shuffled_;
    std::unique_ptr<ZSTD_DCtx_s, FreeContext> zstd_;
};

} // namespace cryo::image
