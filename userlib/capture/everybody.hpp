// SPDX-License-Identifier: Apache-2.0
//
// What is done to all members of a checkpoint at once.
//
//     Result<void> done = for_all(members, [](Member &member) { return member.describe(); });
#pragma once

#include "capture/member.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace cryo::capture {

using Members = std::vector<std::unique_ptr<Member>>;

// By several threads; the first error, when all are done.
Result<void> for_all(const Members &members, const std::function<Result<void>(Member &)> &work);

// Whether each may be copied by fork without it, or the kernel on its behalf, noticing.
bool can_be_copied(const Members &members);

// So that they may go on at once; or not, where one cannot be copied, or is read sooner than that:
// then all have to stand still while they are read.
Result<bool> freeze_all(const Members &members, Snapshot wanted, bool alone, int device);

// Bytes that are in memory now, or have been.
uint64_t memory_of(const Members &members);
uint64_t memory_of(pid_t pid);

} // namespace cryo::capture
