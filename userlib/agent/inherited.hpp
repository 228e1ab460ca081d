// SPDX-License-Identifier: Apache-2.0
//
// Descriptors that the agent opens briefly while other threads of the program run. If one of those
// forks at that moment, the child keeps a copy that nothing else would ever close.
//
//     const long fd = open_briefly("/proc/self/task");   // read, and give_up() (kept_numbers.hpp)
//     const long connection = accept_connection();       // the same
//     close_inherited();                                 // in the child
#pragma once

namespace cryo::agent {

// Opens a file of /proc for reading. Returns the descriptor, or −errno; −EBADF: the program has
// closed it at once.
long open_briefly(const char *path);
// Accepts one on the listener. Returns as above.
long accept_connection();
// Call while the descriptor of the parent's listener is still open.
void close_inherited();

} // namespace cryo::agent
