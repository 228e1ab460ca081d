// SPDX-License-Identifier: Apache-2.0
//
// How a process is frozen for its image, chosen so that it stands still as briefly as it can.
//
//     const Costs costs = estimate({.pages = 131072, .changed = runs, .room = 16 << 20});
//     if (costs.best() == Method::staged) ...
#pragma once

#include "capture/runs.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cryo::capture {

enum class Method {
    fork,   // a copy of the process is read while it goes on
    staged, // what has changed since the base is copied in the stop
    stop,   // the process itself is read, and stands still as long as that takes
};

// What is known of the process, in the stop.
struct Held {
    uint64_t pages = 0;                           // of its own
    uint64_t huge = 0;                            // of these, that lie in huge pages
    std::optional<std::vector<Run>> changed = {}; // since the base; none: not known, or no base
    uint64_t room = 0;                            // bytes that may be copied in the stop
    uint64_t writes_per_s = 0;                    // bytes that the destination takes; 0: not known
};

// Nanoseconds that the process would stand still for, as far as that can be known.
struct Costs {
    static constexpr uint64_t cannot = UINT64_MAX;
    uint64_t fork = cannot, staged = cannot, stop = cannot;

    Method best() const;
    std::string text() const; // for a person
};

Costs estimate(const Held &held);

// As IMAGE_INFO has it.
std::string_view name_of(Method method);

} // namespace cryo::capture
