// SPDX-License-Identifier: Apache-2.0
//
// Connections within one thread, and words to another one.
//
//     InProcess post(loop);
//     auto [one, other] = post.connect();        // two channels without a socket
//     auto [a, b] = post.connect(stopped);       // the first of which may be stopped
//     Mailbox to_other(other_loop);
//     to_other.put([] { ... });                  // runs in that loop
//     LoopThread thread(other_loop);             // that runs it, from begin() to its own end
#pragma once

#include "coord/channel.hpp"

#include <ctime>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cryo::coord::sim {

double seconds_of(clockid_t clock);

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
    // An end may outlive this one, in a timer of the loop.
    std::shared_ptr<InProcess *> self_ = std::make_shared<InProcess *>(this);
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

// Ends the loop and waits for its thread, also where what it belongs to could not be made.
class LoopThread
{
  public:
    explicit LoopThread(Loop &loop) : loop_(loop), mailbox_(loop) {}
    ~LoopThread();
    LoopThread(const LoopThread &) = delete;
    LoopThread &operator=(const LoopThread &) = delete;

    void begin();
    void put(std::function<void()> what) { mailbox_.put(std::move(what)); }
    double processor_seconds() const; // of a processor, that it has had; after begin()

  private:
    Loop &loop_;
    Mailbox mailbox_;
    std::thread thread_;
    clockid_t clock_ = 0;
};

} // namespace cryo::coord::sim
