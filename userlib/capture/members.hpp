// SPDX-License-Identifier: Apache-2.0
//
// Which processes a request means: one, a process with its living descendants, a process group, or
// a session.
//
//     Result<std::vector<Relation>> all = members_of(image::Scope::tree, 412);
//     // 412 first, parents before their children
#pragma once

#include "base/result.hpp"
#include "capture/proc.hpp"
#include "image/records.hpp"

#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

// A process among others, as /proc shows it at one moment.
struct Relation {
    pid_t pid = 0;
    pid_t ppid = 0;
    pid_t pgid = 0;
    pid_t sid = 0;
    bool stopped = false;   // by SIGSTOP or its like, or by a tracer
    bool traced = false;    // by a tracer
    bool ended = false;     // its first thread
    bool zombie = false;    // it has ended, and its parent has not waited for it
    bool of_kernel = false; // a thread that is the kernel's: a worker of io_uring
    bool executing = false; // it begins another program, and has no arguments yet
    int wait_status = 0;    // of a zombie; −1: not to be had
    int exit_signal = 0;    // what its parent gets when it ends
    uint64_t started = 0;   // clock ticks since boot: tells it from another one of the same number
    std::string comm;
};

// ESRCH if there is no such process.
Result<Relation> relation_of(pid_t pid);
// Whether it will do nothing any more: it is no more, waits to be waited for, or is on its way
// there and has no memory left.
bool has_ended(pid_t pid);
// Whether `pid` is, or descends from, a process that `ancestor` has begun since then (on the
// monotonic clock; the kernel keeps hundredths of a second).
bool was_begun_by(pid_t pid, pid_t ancestor, uint64_t since_ns);
// Whether the path of its program ends so.
bool runs_program(const Proc &proc, std::string_view name);
// Or has been: it is a child of cr_restart.
bool is_being_restarted(const Proc &proc);

// `id`: of the process, group or session. The caller itself is never among them.
Result<std::vector<Relation>> members_of(image::Scope scope, pid_t id);

} // namespace cryo::capture
