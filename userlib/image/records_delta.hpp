// SPDX-License-Identifier: Apache-2.0
//
// What an image of role `file` says: a version of a file, its signature, or the state of a service
// directory (docs/delta.md). Include records.hpp, which has the whole list.
#pragma once

#include "image/record_codec.hpp"

namespace cryo::image {

enum class DeltaBase : uint32_t {
    none = 0,  // complete by itself
    image = 1, // the image that the header names
    file = 2,  // a plain file, known by its contents only
};

// A version of a file: all of it, or the blocks in which it differs from its base; without
// contents: its signature. Blocks in BASE extents are those of the base.
struct Delta {
    static constexpr RecordType type = RecordType::delta;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    std::array<uint8_t, 16> series{}; // of the service directory; zero: none
    uint32_t number = 0;              // of the version in the series, from 1
    uint32_t base_number = 0;
    DeltaBase base = DeltaBase{};
    uint32_t block_size = 0; // bytes: a multiple of the page size
    uint64_t size = 0;       // bytes of the file
    uint64_t blocks = 0;
    uint32_t last_block = 0; // bytes of the last one
    uint64_t changed = 0;    // blocks that are not the base's: those of the partial signature
    std::array<uint8_t, 16> content{};      // digest of the whole signature
    std::array<uint8_t, 16> base_content{}; // likewise, of the base
    uint64_t base_size = 0;
    uint32_t object = 0;    // with the contents; 0: a signature alone
    uint32_t signature = 0; // object with the partial signature: a digest for each changed block
    std::string_view name = {};
    uint32_t mode = 0;
    int64_t modified = 0; // nanoseconds since the epoch
    std::string_view tool = {};

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("series", s.series);
        v("number", s.number);
        v("base_number", s.base_number);
        v("base", s.base);
        v("block_size", s.block_size);
        v("size", s.size);
        v("blocks", s.blocks);
        v("last_block", s.last_block);
        v("changed", s.changed);
        v("content", s.content);
        v("base_content", s.base_content);
        v("base_size", s.base_size);
        v("object", s.object);
        v("signature", s.signature);
        v("name", s.name);
        v("mode", s.mode, Show::octal);
        v("modified", s.modified, Show::time);
        v("tool", s.tool);
    }
};

enum class DeltaMode : uint32_t {
    adaptive = 0,
    incremental = 1,
    differential = 2,
};

// State of a service directory: its settings, and which signatures it keeps.
struct DeltaService {
    static constexpr RecordType type = RecordType::delta_service;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    std::array<uint8_t, 16> series{}; // random
    uint32_t next = 0;                // number of the next version
    DeltaMode mode = DeltaMode{};
    uint32_t threshold = 0; // B, in thousandths
    uint32_t most_images = 0;
    uint32_t block_size = 0;
    uint32_t package_blocks = 0;
    uint32_t packing = 0;
    std::array<uint8_t, 16> base{}; // id of the image of the base version; zero: none yet
    uint64_t base_size = 0;
    uint32_t base_signature = 0;        // object
    std::array<uint8_t, 16> previous{}; // id of the image of the newest version
    uint64_t previous_size = 0;
    uint32_t previous_signature = 0;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("series", s.series);
        v("next", s.next);
        v("mode", s.mode);
        v("threshold", s.threshold);
        v("most_images", s.most_images);
        v("block_size", s.block_size);
        v("package_blocks", s.package_blocks);
        v("packing", s.packing);
        v("base", s.base);
        v("base_size", s.base_size);
        v("base_signature", s.base_signature);
        v("previous", s.previous);
        v("previous_size", s.previous_size);
        v("previous_signature", s.previous_signature);
    }
};

enum class DeltaState : uint32_t {
    kept = 0,
    superseded = 1, // another image holds this version; kept for images based on it
    removed = 2,    // its file is to be removed
};

// An image that a service directory knows. In the file `pending`: one that is about to appear.
struct DeltaVersion {
    static constexpr RecordType type = RecordType::delta_version;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t number = 0;
    std::array<uint8_t, 16> image_id{};
    std::array<uint8_t, 16> checksum{}; // of its footer; in `pending` zero
    std::array<uint8_t, 16> base_id{};  // of the image it is based on; zero: complete
    std::array<uint8_t, 16> replaces{}; // image of the same version that it replaced
    uint32_t base_number = 0;
    DeltaState state = DeltaState{};
    std::string_view path = {};
    uint64_t size = 0;   // of the file
    uint64_t stored = 0; // of the image
    uint64_t blocks = 0;
    uint64_t changed = 0;
    int64_t created = 0; // nanoseconds since the epoch

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("number", s.number);
        v("image_id", s.image_id);
        v("checksum", s.checksum);
        v("base_id", s.base_id);
        v("replaces", s.replaces);
        v("base_number", s.base_number);
        v("state", s.state);
        v("path", s.path);
        v("size", s.size);
        v("stored", s.stored);
        v("blocks", s.blocks);
        v("changed", s.changed);
        v("created", s.created, Show::time);
    }
};

} // namespace cryo::image
