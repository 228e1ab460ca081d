// SPDX-License-Identifier: Apache-2.0
//
// Starts one of Cryo's commands for a request, from any program and any thread: without copying the
// program's memory, and passing on nothing of the program's but the environment. Standard output
// and error of the command are the log; it reports the outcome of the request on descriptor
// report_fd.
#pragma once

#include <sys/types.h>

namespace cryo::libcr {

constexpr int image_fd = 4; // in the command

struct Spawn {
    const char *command; // "cr_checkpoint"
    const char *const *arguments;
    int report, log, file; // file −1: none
    // False: the command is not a child of the program, so that wait() never returns it. True: it
    // is the caller's child, and the caller has to wait for it.
    bool child;
};

// The command's pid (0 if it is not a child), or −errno.
pid_t spawn(const Spawn &what);

} // namespace cryo::libcr
