// SPDX-License-Identifier: Apache-2.0
//
// Saves a process, a tree, a group or a session: stop, look, freeze, resume, write, commit. One
// process gives a plain image, several give an archive.
//
//     CheckpointOptions options;
//     options.file = "context.412";
//     Result<Outcome> done = checkpoint(412, options);
#pragma once

#include "base/result.hpp"
#include "capture/process/options.hpp"

#include <sys/types.h>

namespace cryo::capture {

// `id`: a process, or the group or session that the scope names.
Result<Outcome> checkpoint(pid_t id, const CheckpointOptions &options);

} // namespace cryo::capture
