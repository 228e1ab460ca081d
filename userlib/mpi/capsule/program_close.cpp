// SPDX-License-Identifier: Apache-2.0
// Keeps the program from closing the capsule's descriptors: close fails with EBADF, closefrom and
// close_range skip them. A forked child of the program may close them.
#include "mpi/capsule/capsule.hpp"
#include "mpi/capsule/descriptor_owner.hpp"

#include <cerrno>
#include <dlfcn.h>
#include <unistd.h>

namespace cryo::capsule {

namespace {

constexpr unsigned most_descriptors = 65536;

bool is_protected(int fd)
{
    return owns_descriptor(fd) && descriptor_owner() == getpid();
}

using Close = int (*)(int);
using CloseRange = int (*)(unsigned, unsigned, int);

// Calls close_range for the ranges between the capsule's descriptors.
int close_around(unsigned first, unsigned last, int flags)
{
    static const auto close_stretch = reinterpret_cast<CloseRange>(dlsym(RTLD_NEXT, "close_range"));
    unsigned from = first;
    for (unsigned fd = first; fd <= last && fd < most_descriptors; fd++) {
        if (!is_protected(static_cast<int>(fd)))
            continue;
        if (fd > from && close_stretch(from, fd - 1, flags) != 0)
            return -1;
        from = fd + 1;
    }
    return from <= last ? close_stretch(from, last, flags) : 0;
}

} // namespace

} // namespace cryo::capsule

using namespace cryo::capsule;

#define EXPORTED extern "C" [[gnu::visibility("default")]]

EXPORTED int close(int fd)
{
    static const auto close_it = reinterpret_cast<Close>(dlsym(RTLD_NEXT, "close"));
    if (__builtin_expect(is_protected(fd), 0)) {
        errno = EBADF;
        return -1;
    }
    return close_it(fd);
}

EXPORTED int close_range(unsigned first, unsigned last, int flags) noexcept
{
    if (first > last) {
        errno = EINVAL;
        return -1;
    }
    return close_around(first, last, flags);
}

EXPORTED void closefrom(int first) noexcept
{
    close_around(first > 0 ? static_cast<unsigned>(first) : 0, ~0U, 0);
}
