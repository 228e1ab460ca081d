// SPDX-License-Identifier: Apache-2.0
//
// Whether an agent may be put into a program while it runs; the program is not touched.
#pragma once

#include "look/proc.hpp"

namespace cryo::capture {

// An error names what is in the way, and the way out.
Result<void> check_attachable(const Proc &proc);
// As above, for a process that the caller traces, which nobody else does then.
Result<void> check_attachable_by_tracer(const Proc &proc);

} // namespace cryo::capture
