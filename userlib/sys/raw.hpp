// SPDX-License-Identifier: Apache-2.0
//
// Raw system calls: no errno, no libc, no thread-local storage. Code that runs inside a stopped
// program or in the restorer uses nothing else; a negative result is −errno.
//
//     long fd = sys::call(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
//     if (sys::failed(fd))
//         return fd;
#pragma once

#include <sys/syscall.h>
#include <type_traits>

namespace cryo::sys {

template <class T>
inline long word(T value)
{
    if constexpr (std::is_null_pointer_v<T>)
        return 0;
    else if constexpr (std::is_pointer_v<T>)
        return reinterpret_cast<long>(value);
    else
        return static_cast<long>(value);
}

inline long call6(long nr, long a, long b, long c, long d, long e, long f)
{
    register long r10 asm("r10") = d;
    register long r8 asm("r8") = e;
    register long r9 asm("r9") = f;
    long result;
    asm volatile("syscall"
                 : "=a"(result)
                 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                 : "rcx", "r11", "memory");
    return result;
}

template <class... Args>
inline long call(long nr, Args... args)
{
    static_assert(sizeof...(Args) <= 6);
    const long a[6] = {word(args)...};
    return call6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

inline bool failed(long result)
{
    return static_cast<unsigned long>(result) > -4096UL;
}

} // namespace cryo::sys
