// SPDX-License-Identifier: Apache-2.0
//
// Starts the keeper of a program as an unrelated process: in another session, not a child of any
// process here, with no inherited descriptor but standard error.
//
//     Result<pid_t> keeper = launch(settings, getpid());
#pragma once

#include "keeper/settings.hpp"

#include <sys/types.h>

namespace cryo::keeper {

// The keeper's process id. It runs cr_checkpoint from the directory of the running command.
Result<pid_t> launch(Settings settings, pid_t pid);

} // namespace cryo::keeper
