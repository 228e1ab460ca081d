// SPDX-License-Identifier: Apache-2.0
//
// What a fuzzer is told by its environment; without that it ends.
//
//     file = from_environment("CRYO_FUZZ_FILE");
#pragma once

#include <cstdio>
#include <cstdlib>

[[noreturn]] inline void unusable(const char *why)
{
    perror(why);
    exit(1);
}

inline const char *from_environment(const char *name)
{
    const char *value = getenv(name);
    if (!value)
        unusable(name);
    return value;
}
