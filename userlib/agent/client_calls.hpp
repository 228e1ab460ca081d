// SPDX-License-Identifier: Apache-2.0
//
// The calls of libcr.h as the agent has them: −errno instead of errno.
#pragma once

#include "agent/clients.hpp"

namespace cryo::agent {

int client_init();

} // namespace cryo::agent
