// SPDX-License-Identifier: Apache-2.0
//
// For processes that were not started under cr_run, or cannot be, such as static programs: the
// command criu saves them with their descendants, and restores them. Needs root.
#pragma once

#include "backend/backend.hpp"

namespace cryo::backend {

Result<std::unique_ptr<Backend>> make_criu();

// True if criu could be used here; for the advice in an error when Cryo cannot enter a process.
bool criu_would_work();

} // namespace cryo::backend
