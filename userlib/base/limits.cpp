// SPDX-License-Identifier: Apache-2.0
#include "base/limits.hpp"

#include <sys/resource.h>

namespace cryo {

void allow_descriptors()
{
    rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

} // namespace cryo
