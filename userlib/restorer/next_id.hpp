// SPDX-License-Identifier: Apache-2.0
//
// Ids for new tasks. A caller that may choose ids with clone3()
// retries while no task is seen with the id, and yet it is not free:
//
//     Leaving id(tid);
//     do
//         got = ...;            // by clone3
//     while (got == -EEXIST && id.comes_free());
//
// Other callers get the id from the kernel module. The module makes
// it the next one; the first process to start a task gets it, so
// the new task checks its id, and ends if it has another one.
//
//     NextId wished(ids, tid);
//     while (wished.comes_free()) {
//         if (const long rc = wished.choose(); sys::failed(rc))
//             return rc;
//         const long got = ...; // makes the task
//         wished.put_back();
//         if (got == tid)
//             return got;
//         ...                   // waits until that has ended
//     }
//     return -EBUSY;
//
// System calls only: it is for the restorer, and for processes between their birth and execve.
#pragma once

#include "sys/raw.hpp"

#include <cerrno>
#include <cstdint>
#include <linux/cryo.h>
#include <linux/time_types.h>

namespace cryo::restore {

// Where ids come from.
struct Ids {
    int device = -1; // /dev/cryo; −1: there is none
    // The id of the next task before anything was restored. 0: unknown; then tasks of others go on
    // behind all ids that this restart may choose, so that they take none of them.
    uint32_t home = 0;
    // The ids that this restart may choose lie between these.
    uint32_t least = UINT32_MAX, greatest = 0;

    void may_choose(int32_t id)
    {
        if (id <= 0)
            return;
        const auto one = static_cast<uint32_t>(id);
        least = one < least ? one : least;
        greatest = one > greatest ? one : greatest;
    }
};

// Makes `id` the next one. Returns the previous next id, or −errno.
inline long make_next(int device, uint32_t id)
{
    cryo_nextpid next = {};
    next.size = sizeof(next);
    next.pid = id;
    const long rc = sys::call(SYS_ioctl, device, CRYO_IOC_NEXTPID, &next);
    return sys::failed(rc) ? rc : static_cast<long>(next.previous);
}

// In newer kernels (6.18 is one) an id stays taken for a moment after its
// task has disappeared, for longer if the process that reaped the task is
// kept from running, and as long as it names a process group or session.
class Leaving
{
  public:
    explicit Leaving(int32_t id) : id_(id) {}

    // Whether it is worth another try. A task that can be seen has the id.
    bool comes_free()
    {
        if (looks_-- == 0 || sys::call(SYS_kill, id_, 0) != -ESRCH)
            return false;
        const __kernel_timespec pause = {0, 1'000'000};
        sys::call(SYS_nanosleep, &pause, nullptr);
        return true;
    }

  private:
    int32_t id_;
    int looks_ = 3000; // of a millisecond each
};

class NextId
{
  public:
    NextId(const Ids &ids, int32_t id)
        : ids_(ids), home_(ids.home != 0 ? ids.home : ids.greatest + 1), id_(id)
    {}

    // 0, or −errno.
    long choose()
    {
        const long previous = make_next(ids_.device, static_cast<uint32_t>(id_));
        if (sys::failed(previous))
            return previous;
        // Other programs have started tasks since the restart began. But among or near its own ids
        // the next one may be what another of its processes has chosen, or another restart, as of
        // the other ranks of a job, whose ids are near: tasks of others would take these.
        const auto next = static_cast<uint32_t>(previous);
        if (next > 1 && (next + near < ids_.least || next > ids_.greatest + near))
            home_ = next;
        return 0;
    }

    // Otherwise the next task that any process starts gets the id after
    // this one, which is often that of a thread of the same program.
    void put_back() const { make_next(ids_.device, home_); }

    // Whether it is worth a try. A task that took the id first, perhaps
    // when an id just before it was chosen, may end soon: many tasks do.
    bool comes_free()
    {
        if (attempts_-- == 0)
            return false;
        for (; sys::call(SYS_kill, id_, 0) != -ESRCH; looks_--) {
            if (looks_ == 0)
                return false;
            const __kernel_timespec pause = {0, 10'000'000};
            sys::call(SYS_nanosleep, &pause, nullptr);
        }
        return true;
    }

  private:
    static constexpr uint32_t near = 1024;

    const Ids &ids_;
    uint32_t home_;
    int32_t id_;
    int attempts_ = 1000;
    int looks_ = 300; // of 10 ms: three seconds in all
};

} // namespace cryo::restore
