// SPDX-License-Identifier: Apache-2.0
//
// A daemon's event loop: descriptors and times. One thread; everything happens in run().
//
//     loop.watch(fd, POLLIN, [&](short events) { ... });
//     loop.after(2000, [&] { ... });
//     loop.run();                       // until stop()
//
// A turn costs what is ready, however many connections and times there are: the first daemon of a
// large job has thousands. A descriptor is forgotten before it is closed.
#pragma once

#include "base/fd.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

namespace cryo::coord {

class Loop
{
  public:
    using Ready = std::function<void(short events)>;

    Loop();
    // Events as poll() has them. Throws std::system_error if the kernel has no room for it: a
    // connection ends by that, and nothing else does.
    void watch(int fd, short events, Ready ready);
    void change(int fd, short events);
    void forget(int fd);
    // A connection could not be taken: without descriptors or memory for it, poll() would return at
    // once again and again. The listener is left alone for a moment.
    void rest(int listener);

    // Returns a number for call_off().
    uint64_t after(int64_t milliseconds, std::function<void()> then);
    void call_off(uint64_t number);

    void run();
    void stop() { over_ = true; }
    void resume() { over_ = false; } // run() may be called again

  private:
    using Clock = std::chrono::steady_clock;
    struct Watched {
        uint64_t number;
        short events;
        std::shared_ptr<const Ready> ready; // one that runs may be replaced
    };
    struct Timer {
        Clock::time_point at;
        std::function<void()> then;
    };
    int until_next() const;
    void run_ready(uint64_t key, short events);
    void run_timers();

    Fd poll_; // epoll
    std::unordered_map<int, Watched> watched_;
    std::map<uint64_t, Timer> timers_;
    std::set<std::pair<Clock::time_point, uint64_t>> order_; // of timers
    uint64_t numbers_ = 0;
    bool over_ = false;
};

} // namespace cryo::coord
