// SPDX-License-Identifier: Apache-2.0
#include "coord/aside.hpp"

#include <csignal>
#include <poll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <utility>

namespace cryo::coord {

namespace {

// The daemon's own thread takes all signals. Not joinable: no thread could be made.
std::thread without_signals(std::function<void()> body)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread;
    try {
        thread = std::thread(std::move(body));
    } catch (const std::system_error &) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

} // namespace

Aside::Aside(Loop &loop, Work work, Then then)
    : loop_(loop), over_(eventfd(0, EFD_CLOEXEC)), then_(std::move(then))
{
    if (over_)
        thread_ = without_signals([this, work] {
            result_ = work();
            eventfd_write(over_.get(), 1);
        });
    if (thread_.joinable()) {
        loop_.watch(over_.get(), POLLIN, [this](short) { ended(); });
        return;
    }
    result_ = work();
    timer_ = loop_.after(0, [this] { ended(); });
}

Aside::~Aside()
{
    stop();
}

void Aside::stop()
{
    if (thread_.joinable()) {
        thread_.join();
        loop_.forget(over_.get());
    }
    loop_.call_off(timer_);
}

void Aside::ended()
{
    stop();
    // The callback may destroy this object.
    const Then then = std::move(then_);
    const Result<void> result = std::move(result_);
    then(result);
}

} // namespace cryo::coord
