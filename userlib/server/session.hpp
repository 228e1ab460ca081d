// SPDX-License-Identifier: Apache-2.0
//
// What a server of images says to one client, which has proven that it has the key. The client
// sends messages (Speaker::sender in coord/message.cpp), and pieces of an image:
//
//     client                      server
//       | put {name, bytes} ------> |   there is room, and nobody else sends that name
//       | <----------------- ready  |
//       | piece, piece, ... ------> |   written to a file without the image's name
//       | <-------- took {bytes} .. |   so far; the client is no more than `most_ahead` before that
//       | complete {checksum} ----> |   what came is what was sent: on the disk, then it is named
//       | <----- working, ... kept  |
//
//       | find {name} ------------> |   the file stays open, whatever becomes of the name
//       | <----- kept {bytes, ...}  |
//       | read {offset, length} --> |
//       | <----------------- piece  |
//
//       | list {after} / remove --> |
//       | <---- listing / removed   |
//
// `failed` answers any of them, and the client may go on; what else it sends of a put that has
// failed is ignored. What is no message, or none that may come now, ends the connection.
#pragma once

#include "base/fd.hpp"
#include "coord/channel.hpp"
#include "server/depot.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace cryo::server {

// How far a client may be ahead of what the server has taken, and how much of what it has asked for
// it may let wait: in bytes. One that lets more wait is left.
inline constexpr uint64_t most_ahead = uint64_t(4) << 20;
inline constexpr uint64_t most_waiting = 2 * most_ahead;

class Session
{
  public:
    using Publish = std::function<void(const std::shared_ptr<IncomingImage> &)>;

    // `publish` has an image put on the disk without waiting for that, and calls published() then.
    Session(Depot &depot, std::shared_ptr<coord::Channel> channel, std::string node,
            Publish publish);
    ~Session();
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    void published(const Result<StoredImage> &done);
    // Says that an image is still being written. False: the client has been silent for too long, or
    // has not read what it was told.
    bool look(uint64_t now_ns, uint64_t patience_ns);
    const std::string &node() const { return node_; }
    coord::Channel &channel() { return *channel_; }

  private:
    enum class State : uint8_t {
        idle,
        receiving,  // pieces
        publishing, // the client waits
        ignoring,   // what was sent before it has heard that it failed
    };

    void hear(coord::FrameKind kind, std::string_view body);
    bool take(const coord::Message &message);
    bool take_piece(std::string_view body);
    void put(const nlohmann::json &fields);
    void complete(const nlohmann::json &fields);
    void find(const nlohmann::json &fields);
    void read(const nlohmann::json &fields);
    void list(const nlohmann::json &fields);
    void remove(const nlohmann::json &fields);
    void fail(const Error &error);

    Depot &depot_;
    std::shared_ptr<coord::Channel> channel_;
    std::string node_;
    Publish publish_;
    State state_ = State::idle;
    std::shared_ptr<IncomingImage> incoming_;
    StoredImage found_;
    Fd reading_;
    uint64_t heard_ns_; // when the client has last said something
};

} // namespace cryo::server
