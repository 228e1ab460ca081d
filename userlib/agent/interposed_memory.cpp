// SPDX-License-Identifier: Apache-2.0
// madvise(2) and its like: when it was is written down (advice.cpp), and nothing else. Allocators
// call it, so nothing is looked up by the first call.
#include "agent/advice.hpp"
#include "agent/interposed.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <dlfcn.h>
#include <sys/mman.h>

namespace cryo::agent {

namespace {

int (*real_madvise)(void *, size_t, int) noexcept;

// 0, or −errno
int advise(void *address, size_t size, int advice)
{
    const Advising noticed(advice);
    if (real_madvise != nullptr) // a lodger stands in front of it too
        return real_madvise(address, size, advice) == 0 ? 0 : -errno;
    return static_cast<int>(sys::call(SYS_madvise, address, size, advice));
}

} // namespace

void find_real_memory_functions()
{
    real_madvise = reinterpret_cast<decltype(real_madvise)>(dlsym(RTLD_NEXT, "madvise"));
    notice_advice();
}

} // namespace cryo::agent

using namespace cryo::agent;

extern "C" {

CRYO_INTERPOSED int madvise(void *address, size_t size, int advice) noexcept
{
    const int result = advise(address, size, advice);
    if (result == 0)
        return 0;
    errno = -result;
    return -1;
}

CRYO_INTERPOSED int posix_madvise(void *address, size_t size, int advice) noexcept
{
    // The numbers are the same, but this one must not lose what is in memory.
    if (advice == POSIX_MADV_DONTNEED)
        return 0;
    const int before = errno;
    const int result = advise(address, size, advice);
    errno = before;
    return -result;
}

} // extern "C"
