// SPDX-License-Identifier: Apache-2.0
//
// Files of /proc that are about a process, whatever it executes and whatever memory it has: so one
// can be opened as soon as the process is there.
//
//     if (const std::optional<AboutProcess> about = about_process("/proc/412/stat"))
//         ... about->pid, about->name ... // 412, "stat"
//     if (about_ended(seen)) // whatever it is called: nothing can be learned from it any more
#pragma once

#include "resources/seen.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace cryo::resources {

struct AboutProcess {
    uint32_t pid = 0;
    std::string_view name; // a part of the path; empty: the directory of the process
};

// Nothing: it is none of these files.
std::optional<AboutProcess> about_process(std::string_view path);
// Any file of /proc that lies in a process's directory itself, or that directory.
std::optional<AboutProcess> in_directory_of_process(std::string_view path);
// A file or directory like that about a process that has ended and was waited for.
std::optional<AboutProcess> about_ended(const Seen &seen);

} // namespace cryo::resources
