// SPDX-License-Identifier: Apache-2.0
#include "base/limits.hpp"

#include <fstream>
#include <sys/resource.h>

namespace cryo {

namespace {

// What the kernel allows whoever may raise a hard limit.
rlim_t most_descriptors()
{
    rlim_t most = 0;
    std::ifstream("/proc/sys/fs/nr_open") >> most;
    return most;
}

} // namespace

void allow_descriptors()
{
    rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    if (const rlim_t most = most_descriptors(); most > limit.rlim_max) {
        const rlimit beyond = {most, most};
        if (setrlimit(RLIMIT_NOFILE, &beyond) == 0)
            return;
    }
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

} // namespace cryo
