// SPDX-License-Identifier: Apache-2.0
//
// What a tree image says about the images that belong together. Include records.hpp, which has the
// whole list.
#pragma once

#include "image/record_codec.hpp"

namespace cryo::image {

enum class Scope : uint32_t {
    process = 0,
    tree = 1,
    group = 2,
    session = 3,
};

// First record of a tree image: the members follow.
struct Tree {
    static constexpr RecordType type = RecordType::tree;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    Scope scope = Scope{};
    uint32_t root_pid = 0;
    uint32_t members = 0;
    bool directory = false; // members are files beside this one
    std::string_view request = {};

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("scope", s.scope);
        v("root_pid", s.root_pid);
        v("members", s.members);
        v("directory", s.directory);
        v("request", s.request);
    }
};

enum class MemberState : uint32_t {
    saved = 0,
    zombie = 1, // no image: only its exit status
    omitted = 2,
};

// One process of a tree and where its image is. Parents come before children.
struct Member {
    static constexpr RecordType type = RecordType::member;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    std::string_view name = {}; // file name in a directory; empty in an archive
    uint64_t offset = 0;        // in the archive
    uint64_t length = 0;
    std::array<uint8_t, 16> image_id{};
    std::array<uint8_t, 16> checksum{}; // of its footer
    MemberState state = MemberState{};
    uint32_t pid = 0;
    uint32_t ppid = 0;
    uint32_t pgid = 0;
    uint32_t sid = 0;
    int32_t wait_status = 0;
    std::string_view comm = {};

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("name", s.name);
        v("offset", s.offset);
        v("length", s.length);
        v("image_id", s.image_id);
        v("checksum", s.checksum);
        v("state", s.state);
        v("pid", s.pid);
        v("ppid", s.ppid);
        v("pgid", s.pgid);
        v("sid", s.sid);
        v("wait_status", s.wait_status);
        v("comm", s.comm);
    }
};

} // namespace cryo::image
