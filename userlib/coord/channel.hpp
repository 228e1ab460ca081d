// SPDX-License-Identifier: Apache-2.0
//
// One connection of a daemon or a command: whole frames come in, frames go out, nothing blocks.
//
//     auto channel = Channel::make(loop, std::move(socket));             // of this host
//     auto channel = Channel::make(loop, std::move(socket), std::move(tls));  // of another one
//     channel->on_secure = [] { ... };       // once, with TLS; before that nothing else happens
//     channel->on_frame = [](FrameKind kind, std::string_view body) { ... };
//     channel->on_end = [] { ... };          // once; the other end is gone
//     channel->send(FrameKind::json, text);
//
// The callbacks may release the channel, even the one they belong to. An exception
// from them, or an invalid message, ends the connection it came by and nothing else.
#pragma once

#include "base/fd.hpp"
#include "coord/frame.hpp"
#include "coord/loop.hpp"
#include "coord/message.hpp"
#include "coord/tls.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace cryo::coord {

// The user id at the other end of a UNIX socket, and its process.
struct Peer {
    uint32_t uid;
    int pid;
};
Peer peer_of(int socket);

// Virtual is what a connection within one process does otherwise, without a socket.
class Channel : public std::enable_shared_from_this<Channel>
{
  public:
    static std::shared_ptr<Channel> make(Loop &loop, Fd socket, std::unique_ptr<Tls> tls = {});
    // A connection of this host, from a process of the user or root; null: none has come.
    static std::shared_ptr<Channel> accept(Loop &loop, int listener);
    virtual ~Channel();
    Channel(const Channel &) = delete;
    Channel &operator=(const Channel &) = delete;

    virtual void send(FrameKind kind, std::string_view body);
    void send(const Message &message) { send(FrameKind::json, message.pack()); }
    // Messages only, and only such as this speaker may send: else the connection ends.
    void on_message(Speaker from, std::function<void(const Message &)> then);
    virtual void close_when_sent();    // nothing more is read
    virtual void close();              // without calling on_end
    void refuse() { refused_ = true; } // in a callback: ends the connection, calls on_end
    virtual bool open() const { return bool(socket_); }
    size_t waiting() const { return out_.size(); } // bytes that the other end has not taken yet
    virtual Peer peer() const { return peer_of(socket_.get()); }
    int descriptor() const { return socket_.get(); }
    void limit(uint32_t body) { limit_ = body; } // of what an unknown peer may send

    const Tls *tls() const { return tls_.get(); }
    uint64_t sent() const { return sent_; }   // frames
    uint64_t taken() const { return taken_; } // the same

    std::function<void()> on_secure;
    std::function<void(FrameKind, std::string_view)> on_frame;
    std::function<void()> on_end;

  protected:
    Channel(Loop &loop, Fd socket, std::unique_ptr<Tls> tls);
    bool take_frame(FrameKind kind, std::string_view body); // false: the connection has to end

  private:
    void ready(short events);
    bool read_all();
    bool take_frames();
    void go_on_later();
    bool take_in(std::string_view bytes);
    template <class Callback, class... Arguments>
    void tell(const Callback &callback, Arguments... arguments);
    bool flush();
    void end();

    Loop &loop_;
    Fd socket_;
    std::unique_ptr<Tls> tls_; // null: within one host
    std::string in_, out_;
    uint32_t limit_ = most_body;
    uint64_t sent_ = 0;
    uint64_t taken_ = 0;
    bool closing_ = false;
    bool refused_ = false; // what came is invalid
    bool goes_on_ = false; // with frames that are left of a turn
    bool over_ = false;    // nothing more comes than such frames
};

} // namespace cryo::coord
