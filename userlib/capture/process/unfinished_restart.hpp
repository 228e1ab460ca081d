// SPDX-License-Identifier: Apache-2.0
//
// A process that was saved as stopped comes back stopped in the restorer: its agent does not listen
// yet, and its threads block all signals. Here it finishes its restart without being continued. Its
// threads are held as a debugger holds them, and let run until each is about to return to the
// program; there it is stopped as before, where it was when it was saved. The kernel restores the
// stop also if we die.
//
//     if (has_come_back_stopped(proc))
//         if (Result<void> finished = finish_restart(proc); !finished)
//             return finished;
#pragma once

#include "base/result.hpp"
#include "look/proc.hpp"

namespace cryo::capture {

// If it is continued meanwhile, it goes on.
Result<void> finish_restart(const Proc &proc);

} // namespace cryo::capture
