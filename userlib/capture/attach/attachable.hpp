// SPDX-License-Identifier: Apache-2.0
//
// Whether an agent may be put into a program while it runs; the program is not touched.
#pragma once

#include "look/proc.hpp"

namespace cryo::capture {

// An error names what is in the way, and the way out.
Result<void> check_attachable(const Proc &proc);

} // namespace cryo::capture
