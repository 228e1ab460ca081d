// SPDX-License-Identifier: Apache-2.0
#include "store/parallel.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace cryo::store {

Result<void> parallel(size_t parts, unsigned workers, std::atomic<bool> &ended,
                      const PartOfWork &work)
{
    std::atomic<size_t> next = 0;
    std::mutex mutex;
    std::optional<Error> first;
    const auto be_worker = [&](unsigned number) {
        while (!ended) {
            const size_t part = next++;
            if (part >= parts)
                return;
            Result<void> done = work(number, part);
            if (done)
                continue;
            const std::lock_guard lock(mutex);
            if (!first)
                first = done.error();
            ended = true;
        }
    };
    const size_t wanted = std::min<size_t>(workers, parts);
    std::vector<std::jthread> others;
    try {
        for (unsigned number = 1; number < wanted; number++)
            others.emplace_back(be_worker, number);
    } catch (const std::system_error &) {
        // With fewer threads it takes longer.
    }
    be_worker(0);
    others.clear();
    return first ? Result<void>(*first) : Result<void>();
}

} // namespace cryo::store
