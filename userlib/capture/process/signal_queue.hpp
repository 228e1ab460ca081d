// SPDX-License-Identifier: Apache-2.0
//
// Reads the queues of pending signals of a parked thread without removing anything from them.
//
//     Result<std::vector<siginfo_t>> own = peek_signals(tid, Queue::thread);
#pragma once

#include "base/result.hpp"
#include "image/records.hpp"

#include <csignal>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

enum class Queue {
    thread,
    process,
};

// In order of arrival. The thread must be in a wait that a ptrace stop does not disturb.
Result<std::vector<siginfo_t>> peek_signals(pid_t tid, Queue queue);

image::PendingSignal record_of(const siginfo_t &info, uint32_t tid);

} // namespace cryo::capture
