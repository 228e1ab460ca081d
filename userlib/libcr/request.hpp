// SPDX-License-Identifier: Apache-2.0
//
// A request to one of Cryo's commands, from its start until it is reaped. The caller's handle is
// the reading end of the pipe on which the command reports: readable when there is a result. The
// log is a file in memory, which the command writes and anybody reads as often as he likes.
#pragma once

#include "libcr.h"

#include <climits>
#include <sys/types.h>

namespace cryo::libcr {

struct Start {
    const char *command;
    const char *const *arguments;
    int file;        // descriptor of the image, or −1
    bool restart;    // the command is our child, and so is what it makes
    int known_error; // what would be reported at once; 0: nothing
};

// The name of the regular file that a descriptor leads to; false where it has none.
bool name_of(int fd, char (&name)[PATH_MAX]);

// All return −errno for an error.
int start_request(const Start &start, unsigned long *handle);
int wait_request(unsigned long handle, timeval *timeout);         // 1 done, 0 not yet
int log_request(unsigned long handle, unsigned size, char *text); // bytes that there are
int reap_request(unsigned long handle);                           // > 0; −EAGAIN: not yet
int poll_request(unsigned long handle, timeval *timeout, char **text, int *error);

} // namespace cryo::libcr
