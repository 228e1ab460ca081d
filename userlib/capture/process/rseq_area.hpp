// SPDX-License-Identifier: Apache-2.0
//
// The area of restartable sequences that a parked thread has registered, also one of the program's
// own, which only a tracer can find out.
#pragma once

#include "base/remote_address.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <sys/types.h>

namespace cryo::capture {

struct RegisteredRseq {
    RemoteAddress address; // 0: none
    uint32_t size = 0;
    uint32_t signature = 0;
};

Result<RegisteredRseq> registered_rseq(pid_t tid);

} // namespace cryo::capture
