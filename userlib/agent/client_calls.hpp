// SPDX-License-Identifier: Apache-2.0
//
// The agent's implementation of the calls of libcr.h: they return −errno and do not change errno.
#pragma once

#include "agent/clients.hpp"

namespace cryo::agent {

int client_init();

} // namespace cryo::agent
