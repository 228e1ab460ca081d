// SPDX-License-Identifier: Apache-2.0
//
// Processes that were not started under cr_run, or cannot be, such as static programs: the command
// criu saves them with their descendants, and restores them. Needs root.
#pragma once

#include "backend/backend.hpp"

namespace cryo::backend {

Result<std::unique_ptr<Backend>> make_criu();

// For somebody whose process Cryo cannot enter: true where criu could.
bool criu_would_work();

} // namespace cryo::backend
