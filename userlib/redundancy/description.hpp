// SPDX-License-Identifier: Apache-2.0
//
// What a set of nodes has: its members, their image files with sizes and checksums, and how the
// files are coded. Every member keeps it as JSON in front of its parity (parity_file.hpp), so that
// each of them knows what the others had.
//
//     {"version": 1, "id": "0123456789abcdef", "redundancy": "xor", "block": 65536, "member": 0,
//      "members": [{"node": "n1", "files": [{"name": "opal_snapshot_0.ckpt/cryo_context.412",
//                                            "bytes": 1048576, "checksum": "32 digits"}]}, ...]}
//
//     Result<Description> set = read_description(text, path);
#pragma once

#include "redundancy/scheme.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::redundancy {

constexpr uint32_t default_block = 65536;
constexpr uint32_t smallest_block = 4096;
constexpr uint32_t largest_block = 4U << 20;
constexpr size_t most_description = size_t(4) << 20; // bytes of JSON
constexpr size_t most_files = 16384;                 // of all members
constexpr uint64_t most_bytes = uint64_t(1) << 56;   // of one member

// Where a member keeps its parity: beside its image files, none of which has this name.
constexpr const char *parity_name = "parity";

struct SetFile {
    std::string name; // below the member's directory
    uint64_t bytes = 0;
    std::string checksum; // XXH3-128, as 32 hexadecimal digits

    bool operator==(const SetFile &) const = default;
};

struct SetMember {
    std::string node;
    std::vector<SetFile> files;

    uint64_t bytes() const;
    bool operator==(const SetMember &) const = default;
};

struct Description {
    std::string id; // the same in all that was encoded together, and in nothing else
    Scheme scheme;
    uint32_t block = default_block;
    std::vector<SetMember> members;
    uint32_t member = 0; // whose parity follows

    std::vector<std::string> nodes() const;
    std::vector<uint64_t> blocks() const; // how many each member has
    // Whether both are of the same set; `member` may differ.
    bool is_same_set(const Description &other) const;
};

// EINVAL: what is impossible in it, and in which file (`where`) it stands.
Result<void> check(const Description &set, const std::string &where);

std::string write_description(const Description &set);
Result<Description> read_description(std::string_view text, const std::string &where);

} // namespace cryo::redundancy
