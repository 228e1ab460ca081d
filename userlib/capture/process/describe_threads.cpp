// SPDX-License-Identifier: Apache-2.0
// Describes a process's threads in the stop.
#include "capture/process/describe.hpp"

#include "capture/process/rseq_area.hpp"
#include "capture/process/settings.hpp"
#include "look/thread_flags.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

// sched_getattr(2), as the kernel lays it out.
struct SchedAttr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

// A thread that is scheduled fairly may have asked for a time slice of its own (Linux 6.12 and
// later): then it is another one than ours, which has not. 0: it has not.
uint64_t own_slice(const SchedAttr &attr)
{
    static const uint64_t usual = [] {
        SchedAttr ours = {};
        return syscall(SYS_sched_getattr, 0, &ours, sizeof(ours), 0) == 0 ? ours.runtime : 0;
    }();
    const bool is_fair = attr.policy == SCHED_OTHER || attr.policy == SCHED_BATCH;
    return is_fair && attr.runtime != usual ? attr.runtime : 0;
}

// The main thread's values are the process's, and have been read already.
Result<std::string> status_of(Description &d, const agent::ThreadFacts &facts,
                              image::Thread &thread)
{
    if (thread.tid == d.process.pid) {
        thread.name = d.process.comm;
        return d.status;
    }
    const std::string task = fmt::format("task/{}/", facts.tid);
    Result<std::string> name = d.proc.read(task + "comm");
    Result<std::string> status = d.proc.read(task + "status");
    if (!name || !status)
        return name ? status.error() : name.error();
    name->pop_back();
    thread.name = d.strings.keep(*name);
    d.thread_status[thread.tid] = *status;
    return status;
}

// The agent sees only that another area than the C library's is registered.
void take_foreign_rseq(Description &d, const agent::ThreadFacts &facts, image::Thread &thread)
{
    const Result<RegisteredRseq> found = registered_rseq(facts.tid);
    if (!found) {
        d.problems.add(
            fmt::format("thread {} has registered a restartable sequence (rseq) area that is not "
                        "the C library's ({})",
                        facts.tid, found.error().text()),
            "leave the C library's in place; GLIBC_TUNABLES=glibc.pthread.rseq=0 takes it away");
        return;
    }
    thread.rseq = found->address.number();
    thread.rseq_size = found->size;
    thread.rseq_signature = found->signature;
}

Result<image::Thread> describe_thread(Description &d, const agent::ThreadFacts &facts)
{
    image::Thread t;
    t.tid = static_cast<uint32_t>(facts.tid);
    t.layout = image::RegisterLayout::x86_64_parked;
    std::string context(sizeof(facts.context), 0);
    memcpy(context.data(), &facts.context, sizeof(facts.context));
    t.registers = image::as_bytes(d.strings.keep(std::move(context)));
    t.ip = facts.context.rip;
    t.sp = facts.frame;
    t.fs_base = facts.fs_base;
    t.gs_base = facts.gs_base;
    t.robust_list = facts.robust_head;
    t.robust_list_size = facts.robust_size;
    t.clear_child_tid = facts.clear_child_tid;
    t.rseq = facts.rseq;
    t.rseq_size = facts.rseq_size;
    t.rseq_signature = facts.rseq_signature;
    t.timer_slack = facts.timer_slack;
    t.parent_death_signal = static_cast<uint32_t>(facts.pdeathsig);
    describe_settings(d.strings, facts, t);
    if (const Result<std::string> stat = d.proc.read(fmt::format("task/{}/stat", facts.tid)))
        t.io_flusher = is_io_flusher(*stat);
    const Result<std::string> status = status_of(d, facts, t);
    if (!status)
        return status.error();
    SchedAttr attr = {};
    if (syscall(SYS_sched_getattr, facts.tid, &attr, sizeof(attr), 0) != 0)
        return Error::from_errno("sched_getattr", errno);
    const long io = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, facts.tid);
    t.ioprio = io > 0 ? static_cast<uint32_t>(io) : 0;
    constexpr uint32_t by_deadline = 6; // SCHED_DEADLINE, which older headers lack
    if (attr.policy == by_deadline)
        d.problems.add(fmt::format("thread {} is scheduled by deadlines (SCHED_DEADLINE), and the "
                                   "machine of the restart may have no bandwidth left for it",
                                   facts.tid),
                       "give it another policy while it is saved (chrt --other --pid 0 TID)");
    t.policy = attr.policy;
    t.sched_flags = static_cast<uint32_t>(attr.flags);
    t.nice = attr.nice;
    t.priority = attr.priority;
    t.deadline_runtime = own_slice(attr);
    std::string cpus(1024, 0);
    const long used = syscall(SYS_sched_getaffinity, facts.tid, cpus.size(), cpus.data());
    if (used < 0)
        return Error::from_errno("sched_getaffinity", errno);
    cpus.resize(static_cast<size_t>(used));
    t.affinity = image::as_bytes(d.strings.keep(std::move(cpus)));
    if (facts.foreign_rseq != 0)
        take_foreign_rseq(d, facts, t);
    if (facts.registered_ring != 0)
        d.problems.add(fmt::format("thread {} has a ring of io_uring registered with it "
                                   "(IORING_REGISTER_RING_FDS), which lasts without a descriptor",
                                   facts.tid),
                       "the program must unregister and close it first");
    d.has_own_keys = d.has_own_keys || facts.own_keys != 0;
    describe_credentials(d, d.status, *status, facts, t);
    describe_policy(d.strings, facts.policy, t.numa_mode, t.numa_nodes);
    return t;
}

} // namespace

Result<void> describe_threads(Description &d, const std::vector<agent::ThreadFacts> &facts)
{
    for (const agent::ThreadFacts &one : facts) {
        Result<image::Thread> thread = describe_thread(d, one);
        if (!thread)
            return thread.error();
        d.threads.push_back(*thread);
    }
    const auto main = std::find_if(d.threads.begin(), d.threads.end(),
                                   [&](const auto &t) { return t.tid == d.process.pid; });
    if (main == d.threads.end()) {
        // The main thread ended just now; had it ended before, enter() would have failed.
        d.problems.add("the main thread has ended before the others (pthread_exit)",
                       "let main() wait for them (pthread_join) instead");
        return {};
    }
    std::rotate(d.threads.begin(), main, main + 1);
    return {};
}

} // namespace cryo::capture
