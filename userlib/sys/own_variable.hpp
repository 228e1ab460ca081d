// SPDX-License-Identifier: Apache-2.0
//
// Cryo's own environment variables (CRYO_...). They decide what a process becomes, where it
// listens, and which programs and libraries it starts, so they are orders of the user who started
// the process. A process with more rights than that user (setuid, file capabilities) ignores them.
//
//     if (const char *directory = sys::own_variable("CRYO_LIBDIR"))
//         return std::string(directory) + "/" + name;
//
// All of Cryo reads its variables through this function; `scripts/lint variables` checks that. It
// may be called in signal handlers, and before the C library has been initialised.
#pragma once

#include <cstddef>
#include <cstring>
#include <sys/auxv.h>
#include <unistd.h>

namespace cryo::sys {

// The kernel reports it (AT_SECURE), for programs that the loader preloads nothing into as well.
inline bool has_gained_rights()
{
    return getauxval(AT_SECURE) != 0;
}

// The value, or null if there is none or it must be ignored. `environment` ends with a null.
inline const char *own_variable(const char *const *environment, const char *name)
{
    if (environment == nullptr || has_gained_rights())
        return nullptr;
    const size_t length = strlen(name);
    for (; *environment != nullptr; environment++) {
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
            return *environment + length + 1;
    }
    return nullptr;
}

inline const char *own_variable(const char *name)
{
    return own_variable(environ, name);
}

} // namespace cryo::sys
