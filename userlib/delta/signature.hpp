// SPDX-License-Identifier: Apache-2.0
//
// Signatures: a file as the digests of its blocks of fixed size (FHash). What two versions of a
// file have in common is found by their signatures alone; no older version has to be read.
//
//     Result<Signature> now = sign(*file, 4096);
//     uint64_t blocks = count_changed(*now, before);
//
// The digest is XXH3-128: it detects accidental changes, not blocks that an attacker made collide
// on purpose.
#pragma once

#include <functional>
#include <vector>

#include "base/result.hpp"
#include "image/checksum.hpp"

namespace cryo::delta {

using image::Bytes;
using image::Digest;
using image::MutableBytes;

inline constexpr uint32_t kDefaultBlock = 4096;
inline constexpr uint32_t kMaxBlock = 1024 * 1024;

// How far a long operation is: bytes done, bytes to do.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

// Bytes that are read in pieces: a plain file, or a version of one.
class ByteSource
{
  public:
    virtual ~ByteSource() = default;
    virtual const std::string &name() const = 0;
    virtual uint64_t size() const = 0;
    // `offset` is a multiple of the page size. Reading beyond the end is an error.
    virtual Result<void> read(uint64_t offset, MutableBytes to) = 0;
    // An error if the source was written to since it was opened.
    virtual Result<void> unchanged() const { return {}; }
};

uint64_t block_count(uint64_t size, uint32_t block_size);
// A power of two from one page to kMaxBlock.
bool is_block_size(uint64_t block_size);

struct Signature {
    uint32_t block_size = kDefaultBlock;
    uint64_t size = 0; // of the file
    std::vector<Digest> blocks;

    size_t block_bytes(uint64_t block) const; // the last one may be short
    // The digest of the whole signature, which identifies the contents of a file.
    Digest content() const;
    // True if `other`, of the same block size, has this block too.
    bool has_same(const Signature &other, uint64_t block) const;
};

// Computes Signature::content() from digests that arrive one by one.
class ContentHasher
{
  public:
    ContentHasher(uint32_t block_size, uint64_t size);
    void add(std::span<const Digest> blocks);
    Digest digest() const { return hasher_.digest(); }

  private:
    image::Hasher hasher_;
};

Result<Signature> sign(ByteSource &source, uint32_t block_size, const Progress &progress = {});

// Blocks of `now` that `before` does not have in the same place.
uint64_t count_changed(const Signature &now, const Signature &before);

// The stored form of digests, which is their form in memory.
Bytes stored_form(std::span<const Digest> digests);

} // namespace cryo::delta
