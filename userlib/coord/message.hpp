// SPDX-License-Identifier: Apache-2.0
//
// What daemons and commands send each other, as JSON. One table (message.cpp) lists
// the messages, their senders, and their fields; one decoder rejects everything else.
// So code that has a Message may read what the table names, and nothing is thrown.
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
    sender,      // a client of a server of images (server/session.hpp)
    server,      // of images, to its client
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
    local,
    encoded,
    idle,
    alive,
    reports,
    joined,
    rank_refused,
    place,
    prepare,
    cancel,
    finish,
    encode,
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
    renew,
    leaving,
    renewed,
    ends,
    may_end,
    put,
    complete,
    list,
    find,
    read,
    remove,
    ready,
    took,
    kept,
    listing,
    removed,
    failed,
};

struct Message {
    explicit Message(Type t, nlohmann::json f = nlohmann::json::object())
        : type(t), fields(std::move(f))
    {}
    std::string pack() const; // invalid UTF-8 is replaced

    Type type;
    nlohmann::json fields; // an object
};

// The error says why it is not a message of this speaker.
Result<Message> unpack(Speaker from, std::string_view body);

// More ranks than any job has.
inline constexpr uint64_t most_ranks = 1U << 20;

} // namespace cryo::coord
