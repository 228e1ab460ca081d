// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/userfaultfd.hpp"

#include <cstdio>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>

namespace cryo::capture {

bool kernel_is_at_least(unsigned major, unsigned minor)
{
    utsname system = {};
    unsigned is_major = 0;
    unsigned is_minor = 0;
    return uname(&system) == 0 && sscanf(system.release, "%u.%u", &is_major, &is_minor) == 2 &&
           (is_major > major || (is_major == major && is_minor >= minor));
}

bool is_watched_by(const Fd &userfaultfd, const Run &mapping)
{
    uffdio_register range = {};
    range.range = {mapping.start, mapping.end - mapping.start};
    range.mode = UFFDIO_REGISTER_MODE_WP;
    return ioctl(userfaultfd.get(), UFFDIO_REGISTER, &range) == 0;
}

// The kernel does not check whose registration it is: an existing protection would be removed,
// although another process owns it. Our own registrations are asked for in this way only where they
// protect nothing.
bool is_registered(const Fd &userfaultfd, const PageMap &map, RemoteAddress address)
{
    constexpr uint64_t page = image::kPageSize;
    if (map.is_protected(address.number()))
        return false;
    uffdio_writeprotect nothing = {};
    nothing.range = {address.number(), page};
    return ioctl(userfaultfd.get(), UFFDIO_WRITEPROTECT, &nothing) == 0;
}

} // namespace cryo::capture
