// SPDX-License-Identifier: Apache-2.0
//
// How much memory may be taken without others being ended or swapped out for it.
//
//     if (const std::optional<uint64_t> there = available_memory(); there && bytes > *there) ...
#pragma once

#include <cstdint>
#include <optional>

namespace cryo::capture {

// In bytes; none: the kernel does not say.
std::optional<uint64_t> available_memory();

} // namespace cryo::capture
