// SPDX-License-Identifier: Apache-2.0
//
// Work that another thread does meanwhile; where no more threads are allowed, get() does it.
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
