// SPDX-License-Identifier: Apache-2.0
//
// A request to one of Cryo's commands, from its start until it is reaped. The caller's handle is
// the read end of the pipe on which the command reports: readable when there is a result. The log
// is a memfd, which the command writes and which can be read any number of times.
#pragma once

#include "libcr.h"

#include <climits>
#include <sys/types.h>

namespace cryo::libcr {

struct Start {
    const char *command;
    const char *const *arguments;
    int file;        // the image's descriptor, or −1
    bool restart;    // the command, and the process that it makes, are our children
    int known_error; // an error to report at once; 0: none
};

// The name of the regular file that a descriptor refers to; false: it has none.
bool name_of(int fd, char (&name)[PATH_MAX]);

// All return −errno on failure.
// As cr_request_checkpoint(); `name`: of the file that the image replaces, in place of args.cr_fd.
int request_checkpoint(const cr_checkpoint_args_t &args, const char *name,
                       cr_checkpoint_handle_t *handle);
int start_request(const Start &start, unsigned long *handle);
int wait_request(unsigned long handle, timeval *timeout);         // 1 done, 0 not yet
int log_request(unsigned long handle, unsigned size, char *text); // size of the log
int reap_request(unsigned long handle);                           // > 0; −EAGAIN: not yet
int poll_request(unsigned long handle, timeval *timeout, char **text, int *error);

} // namespace cryo::libcr
