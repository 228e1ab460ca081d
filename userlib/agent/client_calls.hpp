// SPDX-License-Identifier: Apache-2.0
//
// The calls of libcr.h as the agent implements them: they return −errno and leave errno alone.
#pragma once

#include "agent/clients.hpp"

namespace cryo::agent {

int client_init();

} // namespace cryo::agent
