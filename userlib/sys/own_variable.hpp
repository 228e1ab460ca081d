// SPDX-License-Identifier: Apache-2.0
//
// Cryo's own environment variables (CRYO_...). They say what a process becomes, whom it listens to,
// which programs and libraries it starts: they are orders of whoever has started the process. One
// that has more rights than that user (a setuid program, one with file capabilities) obeys none.
//
//     if (const char *directory = sys::own_variable("CRYO_LIBDIR"))
//         return std::string(directory) + "/" + name;
//
// All of Cryo reads its variables by this function; `scripts/lint variables` sees to it. It may be
// called in signal handlers, and before the C library has been initialised.
#pragma once

#include <cstddef>
#include <cstring>
#include <sys/auxv.h>
#include <unistd.h>

namespace cryo::sys {

// The kernel says so (AT_SECURE), of programs that the dynamic loader preloads nothing into either.
inline bool has_gained_rights()
{
    return getauxval(AT_SECURE) != 0;
}

// The value, or null where there is none or nobody may give one. `environment` ends with a null.
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
