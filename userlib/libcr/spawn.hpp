// SPDX-License-Identifier: Apache-2.0
//
// Starting one of Cryo's commands for a request, out of any program and any thread: without copying
// its memory, and with nothing of the program's about it but the environment. The command's
// standard output and error are the log; it reports what became of the request on descriptor
// report_fd.
#pragma once

#include <sys/types.h>

namespace cryo::libcr {

constexpr int image_fd = 4; // in the command

struct Spawn {
    const char *command; // "cr_checkpoint"
    const char *const *arguments;
    int report, log, file; // file −1: none
    // False: nobody's child, so that the program's wait() never meets it. True: the caller's, which
    // has to wait for it.
    bool child;
};

// The command's pid (0 if it is nobody's child), or −errno.
pid_t spawn(const Spawn &what);

} // namespace cryo::libcr
