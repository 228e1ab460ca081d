// SPDX-License-Identifier: Apache-2.0
#include "mpi/capsule/hooks.hpp"
#include "mpi/capsule/arena.hpp"
#include "sys/raw.hpp"

extern "C" [[gnu::visibility("hidden")]] long cryo_capsule_system_call(long number, const long *a)
{
    using namespace cryo::capsule;
    switch (number) {
    case SYS_mmap:
        return memory::map(a);
    case SYS_munmap:
        return memory::unmap(a);
    case SYS_mremap:
        return memory::remap(a);
    case SYS_shmat:
        return memory::attach(a);
    case SYS_shmdt:
        return memory::detach(a);
    case SYS_brk:
        return arena::move_break(a[0]);
    case SYS_rt_sigaction:
        return dispositions::set(a);
    case SYS_close:
        return descriptors::closed(a);
    case SYS_dup2:
    case SYS_dup3:
        return descriptors::copied(number, a);
    default:
        break;
    }
    // Any other number is possible, too: some sites make arbitrary system calls.
    const long result = cryo::sys::call6(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    return cryo::sys::failed(result) ? result : descriptors::made(result, a, number);
}
