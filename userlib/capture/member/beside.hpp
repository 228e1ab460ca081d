// SPDX-License-Identifier: Apache-2.0
//
// Runs work on another thread. If no thread can be started, get() runs the work instead.
//
//     std::future<Result<bool>> look = beside([&] { return look_again(); });
//     ...
//     look.get()
#pragma once

#include <future>
#include <system_error>

namespace cryo::capture {

template <typename Work>
auto beside(Work work)
{
    try {
        return std::async(std::launch::async, work);
    } catch (const std::system_error &) {
        return std::async(std::launch::deferred, work);
    }
}

} // namespace cryo::capture
