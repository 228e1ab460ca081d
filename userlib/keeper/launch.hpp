// SPDX-License-Identifier: Apache-2.0
//
// Starts the keeper of a program, as a process that has nothing to do with it: another session, no
// child of anybody here, none of the descriptors but standard error.
//
//     Result<void> started = launch(settings, getpid());
#pragma once

#include "keeper/settings.hpp"

#include <sys/types.h>

namespace cryo::keeper {

// The directory of the running command is where cr_checkpoint is looked for.
Result<void> launch(Settings settings, pid_t pid);

} // namespace cryo::keeper
