// SPDX-License-Identifier: Apache-2.0
//
// The fixed parts of an image: the header page in front, the footer page at the end, the prefix of
// each record. Decoding checks everything that can be checked without the rest of the file.
//
//     Result<Header> h = Header::decode(page);      // refuses what we must not read, saying why
//     Header::Page page = h->encode();
#pragma once

#include <array>
#include <string>

#include "base/result.hpp"
#include "image/checksum.hpp"
#include "image/little_endian.hpp"

namespace cryo::image {

struct Header {
    using Page = std::array<uint8_t, kHeaderSize>;

    uint16_t version = kFormatVersion;
    uint16_t oldest_reader = kOldestReader;
    uint16_t machine = kMachineX86_64;
    Role role = Role::process;
    uint32_t page_size = kPageSize;
    uint32_t package_blocks = kMaxPackageBlocks; // Q
    uint64_t features = 0;                       // must be known to read the image
    uint64_t hints = 0;                          // may be ignored
    Digest id;                                   // random
    Digest base_id;                              // of the image this one is a delta of; else 0
    Digest base_checksum;                        // in that image's footer
    int64_t created = 0;                         // nanoseconds since the epoch
    std::string kernel = {};                     // release, at most 63 bytes

    bool is_delta() const { return bool(base_id); }
    // Of an image of another archive or file.
    bool is_delta_of_earlier() const { return is_delta() && (hints & kHintOfFork) == 0; }
    size_t package_bytes() const { return size_t(package_blocks) * kPageSize; }

    Page encode() const;
    static Result<Header> decode(Bytes page);
};

struct Footer {
    using Page = std::array<uint8_t, kFooterSize>;

    Digest id;              // as in the header
    uint64_t length = 0;    // of the image, header to footer
    uint64_t directory = 0; // offset of the directory record
    uint64_t directory_length = 0;
    uint64_t blocks = 0;
    uint64_t packages = 0;
    uint64_t stored = 0;  // bytes of all packages as stored
    uint64_t records = 0; // typed records
    Digest checksum;      // over all bytes outside segments, then this page up to here

    // Sets the checksum. `covered` has already hashed all bytes outside segments before the
    // footer.
    Page seal(Hasher &covered);
    static Result<Footer> decode(Bytes page);

    // The expected checksum of a footer page that was decoded.
    static Digest expected_checksum(Hasher &covered, Bytes page);
};

struct RecordPrefix {
    RecordType type{};
    uint16_t version = 1;
    uint16_t flags = 0;
    uint64_t length = 0;   // of the payload
    uint64_t checksum = 0; // record_checksum()

    using Encoded = std::array<uint8_t, kPrefixSize>;

    // `covered` is what the checksum covers: the payload, or the head of a segment.
    Encoded encode(Bytes covered) const;
    static RecordPrefix decode(std::span<const uint8_t, kPrefixSize> bytes);

    bool matches(Bytes covered) const;
    bool is_structure() const { return static_cast<uint32_t>(type) < 16; }
    // Refuses a record of unknown type or version that must be understood, and impossible lengths.
    Result<void> check() const;
};

// "record THREAD", "record of unknown type 99"
std::string describe(RecordType type);

// Errors about an image's contents carry EBADMSG; those about a newer format carry EPROTO.
Error damaged(std::string text);

} // namespace cryo::image
