// SPDX-License-Identifier: Apache-2.0
//
// Named memory that ranks have in common gets another name beside its own while a restart of the
// job brings it back (restore/common_memory.hpp): X.cryo.JOB, or X.cryo.JOB.PID. It stays when
// cr_restart is killed, and goes with the directory of the job, which tells whose it was.
//
//     const bool gone = sweep_left_memory(common_memory, "412-0a1b2c3d");
#pragma once

#include <string>
#include <string_view>

namespace cryo::coord {

inline constexpr const char *common_memory = "/dev/shm";

// Removes such files of this user and job that no process has open or mapped: a restart that goes
// on has them open, in whatever container. False: there are others.
bool sweep_left_memory(const std::string &directory, std::string_view job);

// Whether it is the name of such a file.
bool is_left_memory(std::string_view name, std::string_view job);

} // namespace cryo::coord
