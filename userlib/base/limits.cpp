// SPDX-License-Identifier: Apache-2.0
#include "base/limits.hpp"

#include "base/contents.hpp"

#include <cstdlib>
#include <sys/resource.h>

namespace cryo {

namespace {

// The kernel's maximum, for processes that may raise a hard limit.
rlim_t most_descriptors()
{
    const Result<std::string> text = contents("/proc/sys/fs/nr_open");
    return text ? strtoull(text->c_str(), nullptr, 10) : 0;
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
