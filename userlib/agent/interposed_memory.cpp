// SPDX-License-Identifier: Apache-2.0
// Interposes madvise(2) and the like, only to record when they were called (advice.cpp), and
// process_vm_writev(2), only to count the calls under way (tracker.cpp). Allocators call some of
// these functions, so the first call looks nothing up.
#include "agent/advice.hpp"
#include "agent/interposed.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/uio.h>

namespace cryo::agent {

namespace {

int (*real_madvise)(void *, size_t, int) noexcept;
decltype(&::process_vm_writev) real_process_vm_writev;

// 0, or −errno
int advise(void *address, size_t size, int advice)
{
    const Advising noticed(advice);
    if (real_madvise != nullptr) // a lodger interposes it, too
        return real_madvise(address, size, advice) == 0 ? 0 : -errno;
    return static_cast<int>(sys::call(SYS_madvise, address, size, advice));
}

} // namespace

void find_real_memory_functions()
{
    real_madvise = reinterpret_cast<decltype(real_madvise)>(dlsym(RTLD_NEXT, "madvise"));
    find(real_process_vm_writev, "process_vm_writev");
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
    // The values are the same, but this function must not discard the contents.
    if (advice == POSIX_MADV_DONTNEED)
        return 0;
    const int before = errno;
    const int result = advise(address, size, advice);
    errno = before;
    return -result;
}

CRYO_INTERPOSED ssize_t process_vm_writev(pid_t pid, const iovec *from, unsigned long from_count,
                                          const iovec *to, unsigned long to_count,
                                          unsigned long flags) noexcept
{
    const MemoryWrite counted;
    if (real_process_vm_writev != nullptr)
        return real_process_vm_writev(pid, from, from_count, to, to_count, flags);
    const long result =
        cryo::sys::call(SYS_process_vm_writev, pid, from, from_count, to, to_count, flags);
    if (!cryo::sys::failed(result))
        return result;
    errno = static_cast<int>(-result);
    return -1;
}

} // extern "C"
