// SPDX-License-Identifier: Apache-2.0
//
// What the agent has open for a moment while other threads of the program run. One of them may fork
// just then, and the child has a copy, for good, that nobody knows of.
//
//     const long fd = open_briefly("/proc/self/task");   // read, and close
//     expect_connections();                              // before accept
//     close_inherited();                                 // in the child
#pragma once

namespace cryo::agent {

// For reading, of /proc. The descriptor, or −errno.
long open_briefly(const char *path);
// A connection to the listener is about to be taken.
void expect_connections();
// To be called while the parent's listener is still open, too.
void close_inherited();

} // namespace cryo::agent
