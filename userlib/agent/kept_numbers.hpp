// SPDX-License-Identifier: Apache-2.0
//
// Descriptors that the agent has while other threads of the program run. Those may close any
// number, and open something else at it. So the agent's are at high numbers, which the interposed
// functions pass over; and who has used one looks whether it was still the agent's file then.
//
//     const long fd = keep(sys::call(SYS_openat, …), is_ours); // its number; −EBADF: it is lost
//     ... read from it ...
//     if (!is_kept(fd)) ...                                    // this may be of another file
//     give_up(fd);                                             // closes nothing of the program's
#pragma once

namespace cryo::agent {

// Of a descriptor that was just opened, or −errno, which is returned. `is_ours` tells what has been
// opened from anything that the program could open.
long keep(long fd, bool (*is_ours)(int fd));
bool is_kept(long fd);
inline int kept_or_none(int fd) // −1: it is not
{
    return is_kept(fd) ? fd : -1;
}
void give_up(long fd);

// For the interposed functions: the lowest one from `first` to `last`; −1: there is none.
long lowest_kept(unsigned first, unsigned last);

void forget_kept(); // in a child or a restored copy, which has none

} // namespace cryo::agent
