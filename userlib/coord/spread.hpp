// SPDX-License-Identifier: Apache-2.0
//
// Whether a job has ranks on other nodes, as far as the launcher's processes on
// this one show: only then does the first daemon have to listen on the network.
//
//     switch (spread_of(launcher)) { ... }
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::coord {

enum class Spread { unknown, one_node, several };

Spread spread_of(pid_t launcher);

// The address of this node by which others of the job may reach it: CRYO_LISTEN, else
// that of the network that Open MPI is told to use, else that of this host's name in
// /etc/hosts, else the source address of outgoing packets. Loopback if there is no other.
std::string own_address();

} // namespace cryo::coord
