// SPDX-License-Identifier: Apache-2.0
//
// A process that comes back as a copy of its parent: the parent's restorer makes it when its own
// memory is filled, and the copy's restorer starts over with a plan of its own. Memory that it
// keeps stays shared with the parent, until one of them writes to it.
//
// A part of the restorer, with its rule: no libc, no global data, no relocation.
#pragma once

#include "restorer/make_process.hpp"
#include "restorer/shared.hpp"

#include <cerrno>
#include <linux/cryo.h>
#include <linux/mman.h>
#include <linux/time_types.h>
#include <linux/wait.h>

namespace cryo::restore {

inline long unmap(uint64_t from, uint64_t to)
{
    return from < to ? sys::call(SYS_munmap, from, to - from) : 0;
}

// Unmaps what lies between these addresses, but for the restorer's area, which is outside all kept
// memory.
inline long unmap_between(const Shared &shared, uint64_t from, uint64_t to)
{
    const uint64_t end = shared.area + shared.area_size;
    if (shared.area < from || to < end)
        return unmap(from, to);
    const long low = unmap(from, shared.area);
    const long high = unmap(end, to);
    return sys::failed(low) ? low : high;
}

inline long keep_only(const Shared &shared, const Range *kept, uint64_t count)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (const long done = unmap_between(shared, at, kept[i].start); sys::failed(done))
            return done;
        at = kept[i].end;
    }
    return unmap_between(shared, at, task_end);
}

inline long empty(const Range *range, uint64_t count)
{
    for (const Range *end = range + count; range != end; range++) {
        const long done =
            sys::call(SYS_madvise, range->start, range->end - range->start, MADV_DONTNEED);
        if (sys::failed(done))
            return done;
    }
    return 0;
}

// Reads from the beginning of a file.
inline bool read_whole(uint64_t fd, uint64_t to, uint64_t size)
{
    for (uint64_t at = 0; at < size;) {
        const long n = sys::call(SYS_pread64, fd, to + at, size - at, at);
        if (n <= 0 && n != -EINTR)
            return false;
        at += n > 0 ? static_cast<uint64_t>(n) : 0;
    }
    return true;
}

// Where a copy's descriptors are: the operands of Do::fork.
struct Inheritance {
    uint64_t first, end; // its own, and those of the copies that it makes in turn
    uint64_t floor;
    uint64_t all_end; // of the descriptors of all copies

    uint64_t own_end() const { return first + copy_descriptors; }
};

inline void close_between(uint64_t from, uint64_t to)
{
    if (from < to)
        sys::call(SYS_close_range, from, to - 1, 0);
}

// A pipe is open only in the process that speaks through it: its end shows that of the process.
inline void take_descriptors(const Inheritance &own)
{
    for (int i = 0; i < copy_descriptors; i++)
        sys::call(SYS_dup3, own.first + static_cast<uint64_t>(i),
                  own.floor + static_cast<uint64_t>(copy_offsets[i]), 0);
    close_between(own.floor + first_free_offset, own.own_end());
    close_between(own.end, own.all_end);
}

// Runs in the copy.
[[noreturn]] inline void start_over(const Shared &parent, const Inheritance &own)
{
    take_descriptors(own);
    const uint64_t plan_fd = own.floor + plan_fd_offset;
    const uint32_t born[] = {says_born, static_cast<uint32_t>(sys::call(SYS_getpid))};
    sys::call(SYS_write, own.floor + status_fd_offset, born, sizeof(born));

    Header header = {};
    if (!read_whole(plan_fd, reinterpret_cast<uint64_t>(&header), sizeof(header)) ||
        header.magic != plan_magic)
        fail(parent, ~0U, -EPROTO);
    const long seen = sys::call(SYS_mmap, 0, header.size, PROT_READ, MAP_PRIVATE, plan_fd, 0);
    if (sys::failed(seen))
        fail(parent, ~0U, seen);
    const uint64_t code = parent.area + round_up(parent.plan->size);
    const uint64_t code_size = reinterpret_cast<uint64_t>(&parent) - code;
    const AreaLayout layout = lay_out(header, code_size);
    const uint64_t area = map_area(reinterpret_cast<const Header *>(seen), layout.size);
    if (area == 0)
        fail(parent, ~0U, -ENOMEM);
    if (!read_whole(plan_fd, area, header.size))
        fail(parent, ~0U, -EPROTO);
    uint64_t from = code;
    uint64_t to = area + layout.code_at;
    uint64_t left = code_size;
    asm volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(left) : : "memory");
    const long executable =
        sys::call(SYS_mprotect, area + layout.code_at, code_size, PROT_READ | PROT_EXEC);
    if (sys::failed(executable))
        fail(parent, ~0U, executable);
    enter_area(area, layout);
}

// A process that only kept the id for the copy is a child of ours.
inline void end_placeholder(pid_t pid)
{
    if (sys::call(SYS_wait4, pid, nullptr, WNOHANG, nullptr) != 0) // no child, or it has ended
        return;
    sys::call(SYS_kill, pid, SIGKILL);
    while (sys::call(SYS_wait4, pid, nullptr, 0, nullptr) == -EINTR)
        ;
}

// Signals of children that have ended would stay pending for the program.
inline void drop_child_signals()
{
    const uint64_t child_signal = 1UL << (SIGCHLD - 1);
    const __kernel_timespec at_once = {};
    while (sys::call(SYS_rt_sigtimedwait, &child_signal, nullptr, &at_once, sizeof(child_signal)) ==
           SIGCHLD)
        ;
}

inline long fork_copy(const Shared &shared, pid_t wished, const Inheritance &heirs, uint64_t shares)
{
    if (wished != 0)
        end_placeholder(wished);
    const Header &plan = *shared.plan;
    const Ids ids = {plan.device_fd, plan.home_id, plan.least_id, plan.greatest_id};
    const long pid = plan.device_fd >= 0 ? make_process_by_module(wished, ids, nullptr, shares)
                                         : make_process(wished, ids, nullptr, shares);
    if (pid == 0)
        start_over(shared, heirs);
    close_between(heirs.first, heirs.end);
    drop_child_signals();
    return pid == -EEXIST ? -EBUSY : pid; // as for the ids of threads
}

} // namespace cryo::restore
