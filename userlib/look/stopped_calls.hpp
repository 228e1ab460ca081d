// SPDX-License-Identifier: Apache-2.0
//
// Calls that a filter of system calls (seccomp) stops, as examples: of each way through its program
// that does not let a call pass, and of each number. Nothing is executed.
//
//     const StoppedCalls stopped = stopped_calls(filter.program());
//     if (!stopped.are_all)
//         // there may be ways of which there is no example
#pragma once

#include <array>
#include <cstdint>
#include <linux/filter.h>
#include <span>
#include <string>
#include <vector>

namespace cryo::capture {

struct FullCall {
    bool is_32_bit = false; // by int 0x80
    uint32_t number = 0;
    std::array<uint64_t, 6> arguments = {};
};

struct StoppedCalls {
    std::vector<FullCall> calls;
    bool are_all = true; // false: it decides by what no example can have, or has too many ways
};

// What may ask another process (SECCOMP_RET_USER_NOTIF) or a tracer counts as stopped.
StoppedCalls stopped_calls(std::span<const sock_filter> program);

// "system call 56 (with the arguments 0x20000, 0, 0, 0, 0, 0)"
std::string text_of(const FullCall &call);

} // namespace cryo::capture
