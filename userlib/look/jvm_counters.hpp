// SPDX-License-Identifier: Apache-2.0
//
// Every JVM maps a small file of counters, /tmp/hsperfdata_USER/PID, shared and writable, for jps
// and its like. It removes the file when it ends, and removes the files of killed JVMs of the same
// user: so if the image does not contain the file, it does not exist at the restart.
//
//     if (is_jvm_counters(path)) ... // the name only; where others may write, look who owns it
#pragma once

#include <string_view>

namespace cryo::capture {

inline bool is_jvm_counters(std::string_view path)
{
    constexpr std::string_view beginning = "/tmp/hsperfdata_"; // TMPDIR does not count
    if (!path.starts_with(beginning))
        return false;
    const size_t slash = path.find('/', beginning.size());
    return slash != std::string_view::npos && path.find('/', slash + 1) == std::string_view::npos;
}

} // namespace cryo::capture
