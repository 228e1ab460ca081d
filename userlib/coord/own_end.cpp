// SPDX-License-Identifier: Apache-2.0
#include "coord/own_end.hpp"

#include <cerrno>
#include <csignal>

namespace cryo::coord {

Result<OwnEnd> OwnEnd::make()
{
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    timer_t timer = {};
    if (timer_create(CLOCK_BOOTTIME, &event, &timer) != 0)
        return Error::from_errno("a timer of the time since boot", errno);
    return Result<OwnEnd>(OwnEnd(timer));
}

Result<void> OwnEnd::at(int64_t boottime_ns)
{
    constexpr int64_t second = 1'000'000'000;
    itimerspec when = {};
    when.it_value = {.tv_sec = boottime_ns / second, .tv_nsec = boottime_ns % second};
    if (timer_settime(timer_, TIMER_ABSTIME, &when, nullptr) != 0)
        return Error::from_errno("a timer of the time since boot", errno);
    return {};
}

} // namespace cryo::coord
