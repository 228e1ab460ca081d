// SPDX-License-Identifier: Apache-2.0
//
// Makes a process with a wished id, as fork does: by clone3(), or with the kernel module's help.
//
//     const long pid = make_process_by_module(412, ids, nullptr, CLONE_FS);
//     if (pid == 0)
//         ...    // in the child, on a copy of this stack
//
// System calls only: it is for the restorer, and for processes between their birth and execve.
#pragma once

#include "restorer/next_id.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <linux/ioprio.h>
#include <linux/sched.h>
#include <sys/types.h>

namespace cryo::restore {

// The kernel makes a task's I/O context when it is first needed, and one that is not there cannot
// be shared. A priority needs it. 0, or −errno.
inline long begin_io_context()
{
    const long present = sys::call(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
    const bool is_set = !sys::failed(present) && IOPRIO_PRIO_CLASS(present) != IOPRIO_CLASS_NONE;
    return sys::call(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, is_set ? present : 0);
}

// Makes a process with this id (0: any): returns its pid in the parent, 0 in the child, or −errno.
// With `lost` it becomes a sibling of the caller, as the requester wants it to be its child; the
// pid of a process that was made but cannot be used is stored there. `shares`: CLONE_ bits of what
// it shares with the caller.
using MakeProcess = long (*)(pid_t wished, const Ids &ids, pid_t *lost, uint64_t shares);

inline long make_process(pid_t wished, const Ids &, pid_t *lost, uint64_t shares) // by clone3
{
    clone_args args = {};
    if ((shares & CLONE_IO) != 0) {
        if (const long begun = begin_io_context(); sys::failed(begun))
            return begun;
    }
    args.flags = shares | (lost != nullptr ? CLONE_PARENT : 0);
    args.exit_signal = lost != nullptr ? 0 : SIGCHLD; // 0: as the caller's is
    if (wished != 0) {
        args.set_tid = reinterpret_cast<uint64_t>(&wished);
        args.set_tid_size = 1;
    }
    Leaving id(wished);
    long result;
    do
        result = sys::call(SYS_clone3, &args, sizeof(args));
    while (result == -EEXIST && id.comes_free());
    // Filters of containers deny clone3(), whose arguments they cannot see, and allow clone().
    return result == -ENOSYS && wished == 0
               ? sys::call(SYS_clone, args.flags | args.exit_signal, 0, 0, 0, 0)
               : result;
}

// Gets the `wished` id from the module, if clone3() may not choose it.
// Without the module, or the right to choose, like make_process().
inline long make_process_by_module(pid_t wished, const Ids &ids, pid_t *lost, uint64_t shares)
{
    const long result = make_process(wished, ids, lost, shares);
    if (result != -EPERM || wished == 0)
        return result;
    NextId next(ids, wished);
    while (next.comes_free()) {
        if (const long rc = next.choose(); sys::failed(rc))
            return rc;
        const long child = make_process(0, ids, lost, shares);
        if (child == 0) {
            while (sys::call(SYS_getpid) != wished)
                sys::call(SYS_exit_group, 0);
            return 0;
        }
        next.put_back();
        if (child < 0 || child == wished)
            return child;
        if (lost != nullptr) {
            *lost = static_cast<pid_t>(child);
            return -EBUSY;
        }
        while (sys::call(SYS_wait4, child, nullptr, 0, nullptr) == -EINTR)
            ;
    }
    return -EBUSY; // the id of a process group or session, or others are always faster
}

} // namespace cryo::restore
