// SPDX-License-Identifier: Apache-2.0
//
// Resolves a request to processes: one process, a process with its living descendants, a process
// group, or a session.
//
//     Result<std::vector<Relation>> all = members_of(image::Scope::tree, 412);
//     // 412 first, parents before their children
#pragma once

#include "base/result.hpp"
#include "image/records.hpp"
#include "look/proc.hpp"

#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

// A process and its relatives, as /proc shows them at one moment.
struct Relation {
    pid_t pid = 0;
    pid_t ppid = 0;
    pid_t pgid = 0;
    pid_t sid = 0;
    bool stopped = false;   // by SIGSTOP or the like, or by a tracer
    bool traced = false;    // stopped by a tracer
    bool ended = false;     // its main thread has ended
    bool zombie = false;    // it has ended and was not waited for
    bool of_kernel = false; // a kernel thread: an io_uring worker
    bool forked = false;    // and has executed no program since
    bool executing = false; // it is executing another program and has no arguments yet
    int wait_status = 0;    // of a zombie; −1: unknown
    int exit_signal = 0;    // the signal its parent gets when it ends
    uint64_t started = 0;   // clock ticks since boot: detects a reused pid
    std::string comm;
};

// ESRCH if there is no such process.
Result<Relation> relation_of(pid_t pid);
// Whether it will never run again: it is gone, is a zombie, or is exiting and has no memory
// left.
bool has_ended(pid_t pid);
// Whether `pid` is, or descends from, a process that `ancestor` has started since then (on the
// monotonic clock, with the kernel's resolution of hundredths of a second).
bool was_begun_by(pid_t pid, pid_t ancestor, uint64_t since_ns);
// Whether the path of its program ends with `name`.
bool runs_program(const Proc &proc, std::string_view name);
// Whether it is a child of cr_restart: being restarted, or restarted already.
bool is_being_restarted(const Proc &proc);

// The children of all threads of a process. An error: the kernel does not support it, or there is
// no such process.
Result<std::set<pid_t>> children_of(pid_t pid);

// `id`: a process, group or session. A tree, group or session never includes the caller.
Result<std::vector<Relation>> members_of(image::Scope scope, pid_t id);

} // namespace cryo::capture
