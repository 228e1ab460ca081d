// SPDX-License-Identifier: Apache-2.0
//
// For programs that save themselves: they have passed libcr.h's cr_self_register() a function that
// writes their state, and one that reads it. The image has that state, and how the program was
// started; a restart starts it in the same way.
#pragma once

#include "backend/backend.hpp"

namespace cryo::backend {

std::unique_ptr<Backend> make_self();

} // namespace cryo::backend
