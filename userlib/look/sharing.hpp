// SPDX-License-Identifier: Apache-2.0
//
// Which processes share what clone(2) lets them share apart from memory: descriptors, working
// directory, I/O context, semaphore operations to undo.
//
//     for (const std::vector<size_t> &group : sharers(CLONE_FS, {412, 413, 414}))
//         ... group = {0, 2}: 412 and 414 have one working directory, root and umask ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

// Groups of two and more, by place in `pids`, ascending. `flag`: CLONE_FILES, CLONE_FS, CLONE_IO or
// CLONE_SYSVSEM. None where kcmp(2) may not be called. May start a short-lived process.
std::vector<std::vector<size_t>> sharers(uint64_t flag, const std::vector<pid_t> &pids);

// Whether two processes share it; nothing: kcmp(2) may not be called, or one has ended. Two without
// an I/O context count as sharing it, as do those without operations to undo.
std::optional<bool> are_sharers(uint64_t flag, pid_t one, pid_t other);

// "its working directory, root and umask"
const char *what_is_shared(uint64_t flag);

} // namespace cryo::capture
