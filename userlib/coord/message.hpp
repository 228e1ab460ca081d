// SPDX-License-Identifier: Apache-2.0
//
// What daemons and commands tell each other, as JSON. One table (message.cpp) says which messages
// there are, who says them, and what may stand in them; one decoder lets nothing else in. So
// whoever has a Message may take from it what the table names, and nothing is thrown.
//
//     channel->send(Message(Type::cut, {{"checkpoint", 3}, {"rank", 7}}));
//     Result<Message> message = unpack(Speaker::member, body);
//     const uint32_t rank = message->fields.at("rank");
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace cryo::coord {

enum class Speaker : uint8_t {
    newcomer,    // a daemon that has just proven itself
    member,      // the daemon of a node, to the coordinator
    coordinator, // to the daemon of a node
    command,     // ompi-checkpoint, to the coordinator
    job,         // the coordinator, to a command
};

enum class Type : uint8_t {
    join,
    rank,
    rank_gone,
    placed,
    unplaced,
    prepared,
    cut,
    image,
    idle,
    alive,
    joined,
    place,
    prepare,
    cancel,
    finish,
    look,
    go_on,
    checkpoint,
    status_wanted,
    call_off,
    continue_wanted,
    state,
    missing,
    waiting,
    working,
    images,
    status,
    end,
};

struct Message {
    explicit Message(Type t, nlohmann::json f = nlohmann::json::object())
        : type(t), fields(std::move(f))
    {}
    std::string pack() const; // what is no UTF-8 is replaced

    Type type;
    nlohmann::json fields; // an object
};

// Why it is no message of this speaker's.
Result<Message> unpack(Speaker from, std::string_view body);

// More ranks than any job has.
inline constexpr uint64_t most_ranks = 1U << 20;

} // namespace cryo::coord
