// SPDX-License-Identifier: Apache-2.0
#include "look/together.hpp"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace cryo::capture {

Result<void> together(size_t count, const std::function<Result<void>(size_t)> &work)
{
    constexpr size_t least = 4; // for fewer, starting threads takes as long as the work
    constexpr size_t most = 16;
    // Workers wait for the processes half of the time; static, as counting CPUs reads a file.
    static const size_t workers =
        std::clamp<size_t>(2 * std::thread::hardware_concurrency(), 1, most);
    std::vector<Result<void>> done(count);
    std::atomic<size_t> next = 0;
    const auto take_some = [&] {
        for (size_t i; (i = next.fetch_add(1)) < count;)
            done[i] = work(i);
    };
    const size_t helpers = count >= least ? workers - 1 : 0;
    {
        std::vector<std::jthread> threads;
        try {
            for (size_t i = 0; i < helpers; i++)
                threads.emplace_back(take_some);
        } catch (const std::system_error &) {
            // The user's limit of threads is reached; fewer threads do.
        }
        take_some();
    }
    const auto bad = std::ranges::find_if(done, [](const Result<void> &one) { return !one; });
    return bad == done.end() ? Result<void>() : *bad;
}

Result<void> together_in_parts(size_t count, const std::function<Result<void>(size_t)> &work)
{
    constexpr size_t part = 256;
    return together((count + part - 1) / part, [&](size_t number) -> Result<void> {
        const size_t end = std::min(count, (number + 1) * part);
        for (size_t i = number * part; i < end; i++) {
            if (Result<void> done = work(i); !done)
                return done;
        }
        return {};
    });
}

} // namespace cryo::capture
