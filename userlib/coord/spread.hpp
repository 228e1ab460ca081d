// SPDX-License-Identifier: Apache-2.0
//
// Whether a job has ranks on other nodes, as far as the processes of the launcher tell on this one:
// only then is there anything to listen for on the network.
//
//     switch (spread_of(launcher)) { ... }
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::coord {

enum class Spread { unknown, one_node, several };

Spread spread_of(pid_t launcher);

// The address of this node by which others of the job may reach it: CRYO_LISTEN, else that of the
// network that Open MPI is told to use, else that of this host's name in /etc/hosts, else that from
// which packets for elsewhere go. Loopback where there is no other.
std::string own_address();

} // namespace cryo::coord
