// SPDX-License-Identifier: Apache-2.0
//
// Describes a process from outside, without stopping it: its identity, its arguments and its
// directory. This is enough to recognise the process, and to start the same program anew.
//
//     Result<Outline> outline = Outline::of(412);
//     outline->write(writer, "criu", "stop", stopped_ns);
#pragma once

#include "base/result.hpp"
#include "image/writer.hpp"

#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::backend {

class Outline
{
  public:
    static Result<Outline> of(pid_t pid);

    // IMAGE_INFO, PROCESS, ARGS, ENVIRON.
    Result<void> write(image::ImageWriter &writer, std::string_view backend,
                       std::string_view snapshot, uint64_t stopped_ns) const;

    pid_t pid = 0, ppid = 0, pgid = 0, sid = 0; // pid: in its own namespace
    uint32_t uid = 0, euid = 0, gid = 0, egid = 0, umask = 0;
    uint64_t threads = 0;
    int64_t begun_realtime = 0, begun_monotonic = 0; // start of the checkpoint, nanoseconds
    std::string comm, exe, cwd;
    std::string arguments, environment; // in the format of /proc
};

} // namespace cryo::backend
