// SPDX-License-Identifier: Apache-2.0
//
// What the kernel's flags of a thread tell, in /proc/PID/task/TID/stat.
//
//     if (is_io_flusher(*proc.read("thread-self/stat")))
#pragma once

#include <string_view>

namespace cryo::capture {

// Whether it is one by which the system writes memory out (PR_SET_IO_FLUSHER). The kernel tells it
// by prctl(2) to those alone who may set it.
bool is_io_flusher(std::string_view stat);

} // namespace cryo::capture
