// SPDX-License-Identifier: Apache-2.0
// Keys as text, as daemons pass them on. Nothing of OpenSSL: a bench links this without it.
#include "coord/tls.hpp"

#include <cstdlib>
#include <fmt/format.h>

namespace cryo::coord {

std::string to_hex(const Key &key)
{
    std::string text;
    for (const uint8_t byte : key)
        text += fmt::format("{:02x}", byte);
    return text;
}

std::optional<Key> key_from_hex(const std::string &text)
{
    Key key = {};
    if (text.size() != 2 * key.size() ||
        text.find_first_not_of("0123456789abcdef") != std::string::npos)
        return {};
    for (size_t i = 0; i < key.size(); i++)
        key[i] = static_cast<uint8_t>(strtoul(text.substr(2 * i, 2).c_str(), nullptr, 16));
    return key;
}

} // namespace cryo::coord
