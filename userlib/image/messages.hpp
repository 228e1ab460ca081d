// SPDX-License-Identifier: Apache-2.0
//
// The messages of a queue as the bytes of an object, the first one first:
//
//     u64 type    u32 length    length bytes    …
//
//     std::string bytes;
//     append_message(bytes, {2, "hello"});
//     std::optional<std::vector<QueueMessage>> all = read_messages(bytes); // nothing: damaged
#pragma once

#include "image/little_endian.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::image {

struct QueueMessage {
    uint64_t type = 0;
    std::string_view text;
};

inline constexpr size_t kMessageHead = 12;

inline void append_message(std::string &bytes, const QueueMessage &message)
{
    uint8_t head[kMessageHead];
    store_le(head, message.type);
    store_le(head + 8, static_cast<uint32_t>(message.text.size()));
    bytes.append(reinterpret_cast<const char *>(head), sizeof(head));
    bytes.append(message.text);
}

inline std::optional<std::vector<QueueMessage>> read_messages(std::string_view bytes)
{
    std::vector<QueueMessage> all;
    while (!bytes.empty()) {
        if (bytes.size() < kMessageHead)
            return {};
        const auto *head = reinterpret_cast<const uint8_t *>(bytes.data());
        const auto type = load_le<uint64_t>(head);
        const auto length = load_le<uint32_t>(head + 8);
        bytes.remove_prefix(kMessageHead);
        if (bytes.size() < length)
            return {};
        all.push_back({type, bytes.substr(0, length)});
        bytes.remove_prefix(length);
    }
    return all;
}

} // namespace cryo::image
