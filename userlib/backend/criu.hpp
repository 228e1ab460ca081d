// SPDX-License-Identifier: Apache-2.0
//
// For processes that were not started under cr_run, or cannot be, such as static programs: the
// command criu saves them with their descendants, and restores them. Needs root.
#pragma once

#include "backend/backend.hpp"

namespace cryo::backend {

Result<std::unique_ptr<Backend>> make_criu();

// For advice if Cryo cannot enter a process: true if criu could be used here.
bool criu_would_work();

} // namespace cryo::backend
