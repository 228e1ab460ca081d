// SPDX-License-Identifier: Apache-2.0
#include "store/retry.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <random>
#include <thread>

namespace cryo::store {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

milliseconds pause_after_failures(unsigned failures)
{
    constexpr unsigned most_doublings = 5;
    const unsigned doublings = std::min(std::max(failures, 1U) - 1, most_doublings);
    return std::min(milliseconds(200) * (1U << doublings), milliseconds(5000));
}

bool Retry::wait()
{
    const steady_clock::time_point now = steady_clock::now();
    if (failures_++ == 0)
        first_ = now;
    const steady_clock::time_point end = first_ + patience_;
    if (now >= end)
        return false;
    // Clients that failed at the same moment shall not all come back at the same moment.
    static thread_local std::minstd_rand chance(std::random_device{}());
    const milliseconds most = pause_after_failures(failures_);
    const milliseconds pause(
        std::uniform_int_distribution<int64_t>(most.count() / 2, most.count())(chance));
    std::this_thread::sleep_until(std::min(now + pause, end));
    return true;
}

void Retry::progressed()
{
    failures_ = 0;
}

Error Retry::given_up(const Error &error) const
{
    return error.with_more(failures_ > 1 ? fmt::format(" (tried {} times)", failures_)
                                         : std::string());
}

} // namespace cryo::store
