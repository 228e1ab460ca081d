// SPDX-License-Identifier: Apache-2.0
//
// One connection of a daemon or a command: whole frames come in, frames go out, nothing blocks.
//
//     auto channel = Channel::make(loop, std::move(socket));
//     channel->on_frame = [](FrameKind kind, std::string_view body) { ... };
//     channel->on_end = [] { ... };          // once; the other end is gone
//     channel->send(FrameKind::json, text);
//
// The callbacks may let go of the channel, also of the one they belong to.
#pragma once

#include "base/fd.hpp"
#include "coord/frame.hpp"
#include "coord/loop.hpp"

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace cryo::coord {

class Channel : public std::enable_shared_from_this<Channel>
{
  public:
    static std::shared_ptr<Channel> make(Loop &loop, Fd socket);
    ~Channel();
    Channel(const Channel &) = delete;
    Channel &operator=(const Channel &) = delete;

    void send(FrameKind kind, std::string_view body);
    void send(const nlohmann::json &message) { send(FrameKind::json, message.dump()); }
    void close_when_sent(); // nothing more is read
    void close();           // without telling
    bool open() const { return bool(socket_); }
    int descriptor() const { return socket_.get(); }
    void limit(uint32_t body) { limit_ = body; } // of what a stranger may send

    std::function<void(FrameKind, std::string_view)> on_frame;
    std::function<void()> on_end;

  private:
    Channel(Loop &loop, Fd socket);
    void ready(short events);
    bool read_all();
    bool take_frames();
    bool flush();
    void end();

    Loop &loop_;
    Fd socket_;
    std::string in_, out_;
    uint32_t limit_ = most_body;
    bool closing_ = false;
};

// The user id at the other end of a UNIX socket, and its process.
struct Peer {
    uint32_t uid;
    int pid;
};
Peer peer_of(int socket);

} // namespace cryo::coord
