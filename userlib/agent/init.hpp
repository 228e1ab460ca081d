// SPDX-License-Identifier: Apache-2.0
//
// Starts the agent; see init.cpp.
#pragma once

namespace cryo::agent {

// Opens the control socket and takes over the signal, unless that has been done. In a process that
// cr_restart has made it becomes the saved program instead. 0 or −errno; −CR_ENOSUPPORT: the
// process has more rights than the user who started it, and gets no agent. `environment` is the
// process's: libc may not have set environ yet.
int begin_agent(char **environment);

// In a forked child: gives it a control socket of its own.
void after_fork_in_child();

} // namespace cryo::agent
