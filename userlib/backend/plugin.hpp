// SPDX-License-Identifier: Apache-2.0
//
// A backend from a shared library, behind the C interface of cryo_backend.h.
#pragma once

#include "backend/backend.hpp"

namespace cryo::backend {

Result<std::unique_ptr<Backend>> load_plugin(std::string_view name);

} // namespace cryo::backend
