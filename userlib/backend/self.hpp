// SPDX-License-Identifier: Apache-2.0
//
// Programs that save themselves: they have given libcr.h's cr_self_register() a function that
// writes what they need, and one that reads it. The image has what it wrote, and how the program
// was started; a restart starts it so again.
#pragma once

#include "backend/backend.hpp"

namespace cryo::backend {

std::unique_ptr<Backend> make_self();

} // namespace cryo::backend
