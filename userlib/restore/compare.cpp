// SPDX-License-Identifier: Apache-2.0
#include "restore/compare.hpp"

#include "look/available_memory.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <optional>

namespace cryo::restore {

Result<void> check_room(uint64_t bytes)
{
    const std::optional<uint64_t> available = capture::available_memory();
    if (!available || bytes <= *available)
        return {};
    return Error(ENOMEM,
                 fmt::format("a rehearsal needs {} MiB of memory besides the program's own, "
                             "and {} MiB are available; do without --rehearse",
                             bytes >> 20, *available >> 20));
}

Result<void> compare(const Comparison &c)
{
    using Step = Result<void> (*)(const Comparison &);
    for (const Step step : {Step(compare_process), Step(compare_threads), Step(compare_descriptors),
                            Step(compare_memory)}) {
        if (Result<void> done = step(c); !done)
            return done.error().within(fmt::format("process {}", c.saved.process.pid));
    }
    return {};
}

} // namespace cryo::restore
