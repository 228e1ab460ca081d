// SPDX-License-Identifier: Apache-2.0
//
// What cr_checkpoint --attach and the agent that it puts into a running program say to each other.
// The order lies on the stack of the thread that was stopped; the answer is its `result`.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cryo::agent {

constexpr char attached_library[] = "cryo_attached.so";

struct AttachOrder {
    uint64_t loader = 0;     // load address of the dynamic loader; 0: there is none
    int64_t rseq_offset = 0; // of the C library's rseq area, from a thread's base
    uint32_t rseq_size = 0;  // as registered; 0: there is none
    int32_t signal = 0;      // the checkpoint signal from now on
    int64_t result = 1;      // 0 or −errno; 1: the agent has not run
};

} // namespace cryo::agent
