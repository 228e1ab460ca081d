// SPDX-License-Identifier: Apache-2.0
//
// Tries out which system calls the caller's own filters (seccomp) let pass, which nobody under
// them may read. No call is executed.
//
//     Result<std::optional<FullCall>> passing = first_that_passes(stopped_calls(filter).calls);
//     if (passing && !*passing)
//         // what that filter stops is stopped here, too
#pragma once

#include "base/result.hpp"
#include "look/stopped_calls.hpp"

#include <optional>
#include <span>

namespace cryo::capture {

// Starts short-lived processes: another one after each call that ends one.
Result<std::optional<FullCall>> first_that_passes(std::span<const FullCall> calls);

} // namespace cryo::capture
