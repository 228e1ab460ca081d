// SPDX-License-Identifier: Apache-2.0
//
// Connections within one thread, and words to another one.
//
//     InProcess post(loop);
//     auto [one, other] = post.connect();        // two channels without a socket
//     auto [a, b] = post.connect(stopped);       // the first of which may be stopped
//     Mailbox to_other(other_loop);
//     to_other.put([] { ... });                  // runs in that loop
#pragma once

#include "coord/channel.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace cryo::coord::sim {

class InProcess
{
  public:
    explicit InProcess(Loop &loop) : loop_(loop) {}
    InProcess(const InProcess &) = delete;
    InProcess &operator=(const InProcess &) = delete;

    using Ends = std::pair<std::shared_ptr<Channel>, std::shared_ptr<Channel>>;
    // An end that is stopped hears nothing.
    using Stopped = std::shared_ptr<const bool>;
    Ends connect(Stopped one = {}, Stopped other = {});
    bool is_idle() const { return frames_.empty(); } // nothing is under way
    void deliver_all();

  private:
    class End;
    struct Frame {
        std::weak_ptr<End> to;
        FrameKind kind;
        std::string body;
        bool is_last; // the connection ends
    };
    void put(Frame frame);
    void deliver();
    void deliver_one();

    Loop &loop_;
    std::deque<Frame> frames_;
};

class Mailbox
{
  public:
    explicit Mailbox(Loop &loop);
    ~Mailbox();
    Mailbox(const Mailbox &) = delete;
    Mailbox &operator=(const Mailbox &) = delete;

    void put(std::function<void()> what); // by any thread

  private:
    void open();

    Loop &loop_;
    Fd bell_;
    std::mutex mutex_;
    std::vector<std::function<void()>> letters_;
};

} // namespace cryo::coord::sim
