// SPDX-License-Identifier: Apache-2.0
//
// Operations on all members of a checkpoint at once.
//
//     Result<void> done = for_all(members, [](Member &member) { return member.describe(); });
#pragma once

#include "capture/member/member.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace cryo::capture {

using Members = std::vector<std::unique_ptr<Member>>;

// Runs on several threads; returns the first error once all are done.
Result<void> for_all(const Members &members, const std::function<Result<void>(Member &)> &work);

bool have_callbacks(const Members &members);

// Whether each can be forked without the program, or the kernel on its behalf, noticing.
bool can_be_copied(const Members &members);

// Freezes all members so that they can resume at once. False if one cannot be copied or is read
// sooner than copied: then all must stay stopped while they are read.
Result<bool> freeze_all(const Members &members, Snapshot wanted, bool alone, int device);

// By the relations at the time when all were stopped: members found earlier may have changed them.
template <class One> // image::Process, Relation
image::Member record_about(const One &one)
{
    image::Member record;
    record.pid = static_cast<uint32_t>(one.pid);
    record.ppid = static_cast<uint32_t>(one.ppid);
    record.pgid = static_cast<uint32_t>(one.pgid);
    record.sid = static_cast<uint32_t>(one.sid);
    record.comm = one.comm;
    return record;
}

// Bytes that are resident or swapped out.
uint64_t memory_of(const Members &members);
uint64_t memory_of(pid_t pid);
// How the pages of this process are stored.
image::Packing packing_for(const CheckpointOptions &options, pid_t pid);

} // namespace cryo::capture
