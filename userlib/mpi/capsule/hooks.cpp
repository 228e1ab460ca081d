// SPDX-License-Identifier: Apache-2.0
#include "mpi/capsule/hooks.hpp"
#include "mpi/capsule/arena.hpp"
#include "mpi/capsule/capsule.hpp"
#include "sys/raw.hpp"

namespace cryo::capsule {

namespace {

void (*told)();
int launcher = -1;

// What MPICH's library says to its launcher, which then ends the other ranks.
bool is_abort(const long *a)
{
    constexpr char command[] = "cmd=abort";
    constexpr long length = sizeof(command) - 1;
    if (launcher < 0 || a[0] != launcher || a[2] < length)
        return false;
    const char *text = reinterpret_cast<const char *>(a[1]);
    for (long i = 0; i < length; i++) {
        if (text[i] != command[i])
            return false;
    }
    return true;
}

} // namespace

void on_giving_up(void (*function)())
{
    told = function;
}

void note_launcher(int descriptor)
{
    launcher = descriptor;
}

void gives_up()
{
    if (told != nullptr)
        told();
}

} // namespace cryo::capsule

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
    case SYS_exit_group:
        gives_up();
        break;
    case SYS_write:
        if (is_abort(a))
            gives_up();
        break;
    default:
        break;
    }
    // Any other number is possible, too: some sites make arbitrary system calls.
    const long result = cryo::sys::call6(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    return cryo::sys::failed(result) ? result : descriptors::made(result, a, number);
}
