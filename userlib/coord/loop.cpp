// SPDX-License-Identifier: Apache-2.0
#include "coord/loop.hpp"
#include "base/print.hpp"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <poll.h>
#include <utility>
#include <vector>

namespace cryo::coord {

namespace {

constexpr int64_t rest_ms = 100;

// An exception in one callback must not end the daemon.
void tell_of(const std::exception &error)
{
    print(stderr, "mpi-daemon: {}\n", error.what());
}

} // namespace

void Loop::watch(int fd, short events, Ready ready)
{
    watched_.insert_or_assign(fd, Watched{++numbers_, events, std::move(ready)});
}

void Loop::change(int fd, short events)
{
    if (auto at = watched_.find(fd); at != watched_.end())
        at->second.events = events;
}

void Loop::forget(int fd)
{
    watched_.erase(fd);
}

void Loop::rest(int listener)
{
    const auto at = watched_.find(listener);
    if (at == watched_.end() || at->second.events == 0)
        return;
    const short events = std::exchange(at->second.events, short(0));
    after(rest_ms, [this, listener, events, number = at->second.number] {
        const auto again = watched_.find(listener);
        if (again != watched_.end() && again->second.number == number)
            again->second.events = events;
    });
}

uint64_t Loop::after(int64_t milliseconds, std::function<void()> then)
{
    timers_.emplace(++numbers_,
                    Timer{Clock::now() + std::chrono::milliseconds(milliseconds), std::move(then)});
    return numbers_;
}

void Loop::call_off(uint64_t number)
{
    timers_.erase(number);
}

int Loop::until_next() const
{
    if (timers_.empty())
        return -1;
    const auto next = std::min_element(timers_.begin(), timers_.end(),
                                       [](auto &a, auto &b) { return a.second.at < b.second.at; });
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(next->second.at - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
}

void Loop::run_timers()
{
    std::vector<uint64_t> due;
    for (const auto &[number, timer] : timers_) {
        if (timer.at <= Clock::now())
            due.push_back(number);
    }
    for (const uint64_t number : due) {
        const auto at = timers_.find(number);
        if (at == timers_.end())
            continue; // called off by an earlier one
        const std::function<void()> then = std::move(at->second.then);
        timers_.erase(at);
        try {
            then();
        } catch (const std::exception &error) {
            tell_of(error);
        }
    }
}

void Loop::run()
{
    while (!over_) {
        std::vector<pollfd> look;
        std::vector<uint64_t> numbers;
        for (const auto &[fd, watched] : watched_) {
            look.push_back({fd, watched.events, 0});
            numbers.push_back(watched.number);
        }
        poll(look.data(), look.size(), until_next());
        for (size_t i = 0; i < look.size() && !over_; i++) {
            const auto at = watched_.find(look[i].fd);
            // Another descriptor may have this number by now.
            if (look[i].revents == 0 || at == watched_.end() || at->second.number != numbers[i])
                continue;
            const Ready ready = at->second.ready;
            try {
                ready(look[i].revents);
            } catch (const std::exception &error) {
                tell_of(error);
            }
        }
        run_timers();
    }
}

} // namespace cryo::coord
