// SPDX-License-Identifier: Apache-2.0
//
// The data that all parts of the restorer share. It lies at the start of the area's scratch part.
#pragma once

#include "restorer/restorer.hpp"

namespace cryo::restore {

constexpr uint64_t task_end = 0x7ffffffff000;

struct Shared {
    const Header *plan;
    uint64_t area, area_size;
    uint32_t ready; // futex: threads that wait to go
    uint32_t go;    // futex
    uint64_t slot[max_slots];
};

[[noreturn]] inline void fail(const Shared &shared, uint32_t op, long result)
{
    const Failure failure = {op, static_cast<int32_t>(-result), static_cast<uint64_t>(result)};
    sys::call(SYS_write, shared.plan->status_fd, &failure, sizeof(failure));
    for (;;)
        sys::call(SYS_exit_group, 127);
}

} // namespace cryo::restore
