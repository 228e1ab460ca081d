// SPDX-License-Identifier: Apache-2.0
//
// The signal of an agent that comes late: the program may use, block or wait for any.
//
//     Result<int> signal = choose_signal(proc);
//     ... the agent handles it ...
//     Result<void> heard = unblock(proc, *signal, hears, deadline_ns);
#pragma once

#include "look/proc.hpp"

#include <cstdint>
#include <functional>

namespace cryo::capture {

// One that nobody handles, ignores, has pending, or reads by a signalfd; if possible, one that no
// thread blocks.
Result<int> choose_signal(const Proc &proc);

// Whether a thread blocks it for longer than the C library does for a fork or a new thread.
bool blocks_for_good(const Proc &proc, int signal);

// No thread that blocks it for good does so any more. The calling thread must be no tracer of it.
// `hears`, asked while a thread stands still: the process is the one that was meant, and handles
// the signal.
Result<void> unblock(const Proc &proc, int signal, const std::function<bool()> &hears,
                     uint64_t deadline_ns);

} // namespace cryo::capture
