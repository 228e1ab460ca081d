// SPDX-License-Identifier: Apache-2.0
#include "base/printable.hpp"

#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>

namespace cryo {

namespace {

// A UTF-8 character at the beginning of `text`; bytes 0: invalid.
struct Character {
    size_t bytes = 0;
    uint32_t code = 0;
};

Character first_character(std::string_view text)
{
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80)
        return {1, lead};
    const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; // for that many bytes
    constexpr uint32_t most = 0x10ffff;
    if (lead < 0xc0 || lead > 0xf4 || text.size() < bytes)
        return {};
    uint32_t code = lead & (0x7fU >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((byte(i) & 0xc0) != 0x80)
            return {};
        code = code << 6 | (byte(i) & 0x3fU);
    }
    const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
    return code < least[bytes] || code > most || is_surrogate ? Character()
                                                              : Character{bytes, code};
}

bool is_harmless(uint32_t code)
{
    const bool controls = code < 0x20 || (code >= 0x7f && code < 0xa0);
    const bool ends_lines = code == 0x2028 || code == 0x2029;
    const bool turns = code == 0x061c || code == 0x200e || code == 0x200f ||
                       (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    return !controls && !ends_lines && !turns;
}

} // namespace

std::string printable(std::string_view text)
{
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const Character next = first_character(text);
        const size_t bytes = next.bytes == 0 ? 1 : next.bytes;
        if (next.bytes != 0 && is_harmless(next.code))
            out += text.substr(0, bytes);
        else if (next.code == '\n')
            out += "\\n";
        else if (next.code == '\t')
            out += "\\t";
        else if (next.code < 0x80)
            fmt::format_to(std::back_inserter(out), "\\x{:02x}",
                           static_cast<unsigned char>(text.front()));
        else
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", next.code);
        text.remove_prefix(bytes);
    }
    return out;
}

std::string printable_message(std::string_view text)
{
    constexpr std::string_view next_line = "\n  ";
    std::string out;
    for (;;) {
        const size_t end = text.find(next_line);
        out += printable(text.substr(0, end));
        if (end == std::string_view::npos)
            return out;
        out += next_line;
        text.remove_prefix(end + next_line.size());
    }
}

bool is_utf8(std::string_view text)
{
    while (!text.empty()) {
        const size_t bytes = first_character(text).bytes;
        if (bytes == 0)
            return false;
        text.remove_prefix(bytes);
    }
    return true;
}

} // namespace cryo
