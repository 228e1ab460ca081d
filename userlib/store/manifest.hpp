// SPDX-License-Identifier: Apache-2.0
//
// The object that makes others an image or a snapshot: it is written last and as a whole, so what
// has none is not complete. It names the files with sizes and checksums; their contents are in
// objects that are named by the checksum:
//
//     PLACE/cryo.json
//     PLACE/files/CHECKSUM-BYTES
//
// So an upload that was interrupted can only be continued with the same contents, and what the last
// manifest names is untouched while another is made.
#pragma once

#include "base/result.hpp"
#include "store/contents.hpp"
#include "store/location.hpp"

#include <optional>
#include <string>
#include <vector>

namespace cryo::store {

class Client;

struct StoredFile {
    std::string name = {};
    uint64_t bytes = 0;
    std::string checksum = {}; // XXH3-128, 32 hexadecimal digits

    Location object(const Location &place) const;
    bool operator==(const StoredFile &) const = default;
};

struct Manifest {
    Kind kind{};
    std::string name = {}, root = {};
    std::string host = {};
    int64_t pushed_ns = 0; // since the epoch
    std::vector<StoredFile> files = {};

    uint64_t bytes() const;
    std::string text() const;
    // The text, with this machine and the time, as what was put at `place` last. EFBIG: it has too
    // many files.
    Result<std::string> text_of_push(const std::string &place);
    // EBADMSG: damaged. ENOTSUP: of a later release. EPROTO: it names what it must not.
    static Result<Manifest> parse(const std::string &text);
    // ENOENT: there is none.
    static Result<Manifest> read(Client &client, const Location &place);
};

inline constexpr std::string_view manifest_name = "cryo.json";
inline constexpr std::string_view files_name = "files/";
inline constexpr size_t largest_manifest = size_t(64) << 20;

} // namespace cryo::store
