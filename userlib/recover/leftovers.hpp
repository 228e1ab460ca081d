// SPDX-License-Identifier: Apache-2.0
//
// What a program leaves when its first process has ended. The supervisor is a subreaper: each
// process of the program whose parent has ended becomes the supervisor's child. A child that was
// not waited for keeps its number, so it is known for certain whom a signal reaches; nobody else is
// ever sent one.
//
//     end_leftovers([&] { return await_child(); });
#pragma once

#include "base/result.hpp"

#include <functional>
#include <set>
#include <sys/types.h>

namespace cryo::recover {

// The caller's children without keepers, which end by themselves.
Result<std::set<pid_t>> leftovers();

// Ends them, their children and so on. `await` returns when a child has been waited for; false: it
// is no longer worth it. EPERM: one that belongs to another user does not end.
Result<void> end_leftovers(const std::function<bool()> &await);

} // namespace cryo::recover
