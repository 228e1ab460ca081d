// SPDX-License-Identifier: Apache-2.0
//
// The beginning of a text that is too long to be shown.
//
//     print("{}…", beginning(command, 200));
#pragma once

#include <cstddef>
#include <string_view>

namespace cryo::inspect {

// As much of a text as fits in so many bytes, without cutting a character of UTF-8.
inline std::string_view beginning(std::string_view text, size_t most)
{
    if (text.size() <= most)
        return text;
    constexpr size_t kRest = 3; // bytes of a character after its first one
    for (size_t i = 0; i < kRest && most > 0 && (text[most] & 0xc0) == 0x80; i++)
        most--;
    return text.substr(0, most);
}

} // namespace cryo::inspect
