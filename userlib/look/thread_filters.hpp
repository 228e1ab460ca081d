// SPDX-License-Identifier: Apache-2.0
//
// Reads the filters of system calls (seccomp) of a thread that the caller holds in a ptrace stop.
// The kernel tells them to a caller with CAP_SYS_ADMIN that is under no filter itself.
//
//     Result<std::vector<CallFilter>> own = read_filters(tid, of_surroundings);
#pragma once

#include "base/result.hpp"
#include "look/filter_program.hpp"

#include <string_view>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

// Whether this thread may, as far as it knows of itself. In a container it has the capability only
// for the container, and the kernel refuses nevertheless.
bool may_read_filters();

// The oldest first, without the first `left_out`. EPERM: the caller may not.
Result<std::vector<CallFilter>> read_filters(pid_t tid, unsigned left_out);

// Whether a thread with this `status` in /proc has lost speculative execution because it put on a
// filter (without SECCOMP_FILTER_FLAG_SPEC_ALLOW, on a kernel that does that).
bool is_speculation_lost(std::string_view status);

} // namespace cryo::capture
