// SPDX-License-Identifier: Apache-2.0
//
// The agent's beginning; see init.cpp.
#pragma once

namespace cryo::agent {

// Opens the control socket and takes the signal, unless that has been done. In a process that
// cr_restart has made it becomes the saved program instead. 0 or −errno; −CR_ENOSUPPORT: the
// process has more rights than who has started it, and there is no agent in it.
// `environment` is that of the process: libc may not know it yet.
int begin_agent(char **environment);

// In a child that a fork has made: it listens by itself.
void after_fork_in_child();

} // namespace cryo::agent
