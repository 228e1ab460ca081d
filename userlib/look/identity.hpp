// SPDX-License-Identifier: Apache-2.0
//
// How a mapped file is recognised: by the build-id of an ELF file, otherwise by its contents.
//
//     Result<Identity> now = identify("/lib/x86_64-linux-gnu/libc.so.6");
//     if (now && now->build_id == saved.build_id) ...
#pragma once

#include "base/result.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace cryo::capture {

struct Identity {
    uint64_t size = 0;
    std::vector<uint8_t> build_id;          // empty: the file has none
    std::array<uint8_t, 16> content_hash{}; // only if there is no build-id
};

Result<Identity> identify(const std::string &path);

// Why the dynamic linker cannot preload a library into this program ("is a 32-bit program", or the
// following); empty if it can.
inline constexpr std::string_view statically_linked = "is statically linked";
std::string why_not_preloadable(const std::string &path);
// The dynamic linker of musl ends a program for which it cannot load a library that is preloaded.
bool is_of_musl(const std::string &path);

// Whether this is an ELF program started by the dynamic linker, as preloading requires.
bool is_preloadable(const std::string &path);

} // namespace cryo::capture
