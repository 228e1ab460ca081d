// SPDX-License-Identifier: Apache-2.0
//
// Chooses how to freeze a process for its image, so that the stop is as short as possible.
//
//     const Costs costs = estimate({.pages = 131072, .changed = runs, .room = 16 << 20});
//     if (costs.best() == Method::staged) ...
#pragma once

#include "look/proc.hpp"
#include "look/runs.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cryo::capture {

enum class Method {
    fork,   // a copy of the process is read while it runs
    staged, // pages changed since the base are copied in the stop
    stop,   // the process itself is read and stays stopped meanwhile
};

// The facts about the process that are known in the stop.
struct Held {
    uint64_t pages = 0;                           // private pages with contents
    uint64_t huge = 0;                            // the part of them in huge pages
    std::optional<std::vector<Run>> changed = {}; // since the base; none: unknown, or no base
    uint64_t room = 0;                            // bytes that may be copied in the stop
    uint64_t writes_per_s = 0;                    // bytes that the destination takes; 0: unknown
};

// Estimated nanoseconds for which the process would be stopped.
struct Costs {
    static constexpr uint64_t cannot = UINT64_MAX;
    uint64_t fork = cannot, staged = cannot, stop = cannot;

    Method best() const;
    std::string text() const; // for the user
};

Costs estimate(const Held &held);

// For Held: an estimate that does not look at each mapping.
uint64_t private_pages(const Proc &proc);

// As in IMAGE_INFO.
std::string_view name_of(Method method);

} // namespace cryo::capture
