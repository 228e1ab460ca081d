// SPDX-License-Identifier: Apache-2.0
//
// Puts an agent into running programs that were not started under cr_run. What has one already is
// left alone.
//
//     Result<void> there = attach(412, options, cli::library(agent::attached_library), remark);
//     // from here on, a checkpoint as of any program
//
// The caller's thread becomes the programs' tracer for that time. All its signals are blocked, so
// that only SIGKILL interrupts it at any moment; one that is to end the command does so as soon as
// the thread that it traces has been let go, or does not stop.
#pragma once

#include "capture/process/options.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace cryo::capture {

// `library`: the path of the agent's file. `remark` may be empty.
Result<void> attach(pid_t id, const CheckpointOptions &options, const std::string &library,
                    const std::function<void(std::string_view)> &remark);

} // namespace cryo::capture
