// SPDX-License-Identifier: Apache-2.0
//
// An open file of a stopped program, as a checkpoint has found it.
#pragma once

#include "base/fd.hpp"
#include "image/records.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <sys/stat.h>

namespace cryo::resources {

struct Seen {
    size_t holder = 0; // number of a process that has it
    int fd = -1;       // one of its descriptors there
    // If no process has it and it only travels in a message that waits in a socket: that socket's
    // descriptor; `fd` is the checkpointer's own then.
    int passed_in = -1;
    std::string link; // target of /proc/PID/fd/N
    struct stat status = {};
    // Both were seen before the program was stopped (capture/files/early_descriptors), and are to
    // be confirmed by the open file.
    bool early = false;
    std::string info;      // /proc/PID/fdinfo/N
    uint64_t position = 0; // this and what follows are parsed from it
    uint32_t flags = 0;    // O_ bits, without O_CLOEXEC
    bool close_on_exec = false;
    Fd shared;                 // the checkpointer's descriptor of the program's open file
    std::optional<bool> named; // whether `link` leads to it; none: nobody has looked yet
    image::FileKind kind = image::FileKind::other;
    uint32_t open_file = 0; // its record; 0: none yet
};

} // namespace cryo::resources
