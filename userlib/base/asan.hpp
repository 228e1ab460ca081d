// SPDX-License-Identifier: Apache-2.0
//
// AddressSanitizer as a shared library (libasan.so of GCC, libclang_rt.asan*.so of Clang) ends a
// program in which another library is loaded first, as a preloaded one is. Cryo's library may be
// loaded first: each of its functions calls the next library's function of the same name.
//
//     if (is_asan("libasan.so.8")) ... // it needs asan_unordered in ASAN_OPTIONS
#pragma once

#include <string_view>

namespace cryo {

constexpr std::string_view asan_order = "verify_asan_link_order";
constexpr std::string_view asan_unordered = "verify_asan_link_order=0";

// The name or the path of a library.
inline bool is_asan(std::string_view library)
{
    const std::string_view name = library.substr(library.rfind('/') + 1);
    return name.starts_with("libasan.so") ||
           (name.starts_with("libclang_rt.asan") && name.find(".so") != std::string_view::npos);
}

} // namespace cryo
