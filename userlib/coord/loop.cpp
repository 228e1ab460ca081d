// SPDX-License-Identifier: Apache-2.0
#include "coord/loop.hpp"
#include "base/print.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <poll.h>
#include <sys/epoll.h>
#include <system_error>
#include <vector>

namespace cryo::coord {

static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLERR == EPOLLERR &&
              POLLHUP == EPOLLHUP);

namespace {

constexpr int64_t rest_ms = 100;
constexpr size_t most_at_once = 256;

// An exception in one callback must not end the daemon.
void tell_of(const std::exception &error)
{
    print(stderr, "{}: {}\n", program_invocation_short_name, error.what());
}

// A descriptor, and whose it was: another one may have its number by the time its events are seen.
uint64_t key_of(int fd, uint64_t number)
{
    return uint64_t(static_cast<uint32_t>(fd)) << 32 | static_cast<uint32_t>(number);
}

int tell_kernel(int poll, int operation, int fd, short events, uint64_t number)
{
    epoll_event event = {};
    event.events = static_cast<uint32_t>(events);
    event.data.u64 = key_of(fd, number);
    return epoll_ctl(poll, operation, fd, &event);
}

[[noreturn]] void give_up(const char *what)
{
    throw std::system_error(errno, std::generic_category(), what);
}

} // namespace

Loop::Loop() : poll_(epoll_create1(EPOLL_CLOEXEC))
{
    if (!poll_)
        give_up("epoll_create1");
}

void Loop::watch(int fd, short events, Ready ready)
{
    const uint64_t number = ++numbers_;
    const int operation = watched_.contains(fd) ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (tell_kernel(poll_.get(), operation, fd, events, number) != 0)
        give_up("epoll_ctl");
    watched_.insert_or_assign(
        fd, Watched{number, events, std::make_shared<const Ready>(std::move(ready))});
}

void Loop::change(int fd, short events)
{
    const auto at = watched_.find(fd);
    if (at == watched_.end() || at->second.events == events)
        return;
    at->second.events = events;
    tell_kernel(poll_.get(), EPOLL_CTL_MOD, fd, events, at->second.number);
}

void Loop::forget(int fd)
{
    if (watched_.erase(fd) != 0)
        epoll_ctl(poll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void Loop::rest(int listener)
{
    const auto at = watched_.find(listener);
    if (at == watched_.end() || at->second.events == 0)
        return;
    const short events = at->second.events;
    change(listener, 0);
    after(rest_ms, [this, listener, events, number = at->second.number] {
        const auto again = watched_.find(listener);
        if (again != watched_.end() && again->second.number == number)
            change(listener, events);
    });
}

uint64_t Loop::after(int64_t milliseconds, std::function<void()> then)
{
    const auto at = Clock::now() + std::chrono::milliseconds(milliseconds);
    timers_.emplace(++numbers_, Timer{at, std::move(then)});
    order_.emplace(at, numbers_);
    return numbers_;
}

void Loop::call_off(uint64_t number)
{
    const auto at = timers_.find(number);
    if (at == timers_.end())
        return;
    order_.erase({at->second.at, number});
    timers_.erase(at);
}

int Loop::until_next() const
{
    if (order_.empty())
        return -1;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(order_.begin()->first - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
}

void Loop::run_timers()
{
    std::vector<uint64_t> due;
    const auto now = Clock::now();
    for (auto at = order_.begin(); at != order_.end() && at->first <= now; ++at)
        due.push_back(at->second);
    for (const uint64_t number : due) {
        const auto at = timers_.find(number);
        if (at == timers_.end())
            continue; // called off by an earlier one
        const std::function<void()> then = std::move(at->second.then);
        call_off(number);
        try {
            then();
        } catch (const std::exception &error) {
            tell_of(error);
        }
    }
}

void Loop::run_ready(uint64_t key, short events)
{
    const auto at = watched_.find(static_cast<int>(key >> 32));
    if (at == watched_.end() || key_of(at->first, at->second.number) != key)
        return;
    const std::shared_ptr<const Ready> ready = at->second.ready;
    try {
        (*ready)(events);
    } catch (const std::exception &error) {
        tell_of(error);
    }
}

void Loop::run()
{
    std::array<epoll_event, most_at_once> ready = {};
    while (!over_) {
        const int count = epoll_wait(poll_.get(), ready.data(), most_at_once, until_next());
        for (int i = 0; i < count && !over_; i++)
            run_ready(ready[static_cast<size_t>(i)].data.u64,
                      static_cast<short>(ready[static_cast<size_t>(i)].events));
        run_timers();
    }
}

} // namespace cryo::coord
