// SPDX-License-Identifier: Apache-2.0
// The process around the memory: limits, signals, names, threads, timers.
#include "restore/plan_parts.hpp"
#include "sys/newer_numbers.hpp"

#include <algorithm>
#include <asm/prctl.h>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <linux/prctl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

// Setting it to its present value shows whether the kernel supports it.
void plan_memory_merge(Planning &p)
{
    const int here = prctl(sys::pr_get_memory_merge, 0, 0, 0, 0);
    if (here >= 0 && prctl(sys::pr_set_memory_merge, here, 0, 0, 0) == 0)
        p.plan.program.call(
            "letting equal pages be merged", SYS_prctl,
            {value(sys::pr_set_memory_merge), value(1), value(0), value(0), value(0)});
    else
        p.plan.notices.push_back(
            fmt::format("new memory is not merged with equal memory (PR_SET_MEMORY_MERGE): {}",
                        strerror(errno)));
}

// The words that the kernel writes when the thread ends. A rehearsal omits them: memory shared with
// the program through a file may have a mutex whose owner, identified by its thread's id, would be
// marked as dead when the rehearsal ends.
void plan_last_words(Program &program, const image::Thread &thread, const std::string &who)
{
    program.call(who + "setting its tid address", SYS_set_tid_address,
                 {value(thread.clear_child_tid)});
    if (thread.robust_list_size != 0)
        program.call(who + "setting its robust list", SYS_set_robust_list,
                     {value(thread.robust_list), value(thread.robust_list_size)});
}

// Whether the address is in a shared file's mapping, where writing would change the file.
bool is_others_too(const Planning &p, uint64_t address)
{
    return std::ranges::any_of(p.saved.regions(), [&](const image::Region &region) {
        return region.kind == image::RegionKind::shared_file && address >= region.start &&
               address < region.end;
    });
}

// A cr_restart that is killed before the signal is set cannot cause it: the parent is looked at.
void bind_to_parent(Program &program)
{
    program.call("binding it to cr_restart", SYS_prctl, {value(PR_SET_PDEATHSIG), value(SIGKILL)});
    program.call_exact("staying with cr_restart, which has been killed", SYS_getppid,
                       static_cast<uint64_t>(getpid()), {});
}

// Comes after changes of credentials, by which the kernel may clear it. The signal follows the
// thread that makes the process (nursery.cpp), not its process: cr_restart's first, which stays to
// the end.
void plan_parent_death(Planning &p, const image::Thread &thread, const std::string &who)
{
    const bool is_main = thread.tid == p.saved.process.pid;
    constexpr uint32_t first_with_given_signal = 21; // an older agent would save it as its own
    const bool agent_knows = p.saved.agent.protocol >= first_with_given_signal;
    const bool bound = p.options.bound_to_parent && !p.options.for_requester && agent_knows &&
                       p.saved.is_first && is_main;
    if (is_main && agent_knows && !p.options.rehearse)
        p.plan.program.add(
            Do::store, "telling the program its parent death signal",
            {value(p.saved.agent.resume_info + offsetof(agent::ResumeInfo, given_death_signal)),
             value((bound ? uint64_t(SIGKILL) : 0) | uint64_t(thread.parent_death_signal) << 32)});
    if (bound)
        bind_to_parent(p.plan.program);
    else if (thread.parent_death_signal != 0)
        p.plan.program.call(who + "setting its parent death signal", SYS_prctl,
                            {value(PR_SET_PDEATHSIG), value(thread.parent_death_signal)});
}

// State that a thread sets for itself; the program's TLS is not needed for it.
Result<void> plan_thread_state(Planning &p, const image::Thread &thread)
{
    Program &program = p.plan.program;
    const std::string who = fmt::format("thread {}: ", thread.tid);
    program.call(who + "setting FS", SYS_arch_prctl, {value(ARCH_SET_FS), value(thread.fs_base)});
    if (thread.gs_base != 0)
        program.call(who + "setting GS", SYS_arch_prctl,
                     {value(ARCH_SET_GS), value(thread.gs_base)});
    if (!p.options.rehearse)
        plan_last_words(program, thread, who);
    if (thread.rseq != 0 && !(p.options.rehearse && is_others_too(p, thread.rseq)))
        program.call(
            who + "registering rseq", SYS_rseq,
            {value(thread.rseq), value(thread.rseq_size), value(0), value(thread.rseq_signature)});
    program.call(who + "setting its name", SYS_prctl,
                 {value(PR_SET_NAME), program.text(thread.name)});
    program.call(who + "setting its timer slack", SYS_prctl,
                 {value(PR_SET_TIMERSLACK), value(thread.timer_slack)});
    if (Result<void> set = plan_thread_settings(p, thread, who); !set)
        return set;
    plan_io_priority(p, thread, who);
    plan_io_flusher(p, thread, who);
    plan_thread_policy(p, thread);
    plan_scheduling(p, thread, who);
    // A machine with fewer processors cannot honour every mask.
    program.try_call(who + "setting its affinity", SYS_sched_setaffinity,
                     {value(0), value(thread.affinity.size()),
                      program.data(thread.affinity.data(), thread.affinity.size())});
    plan_capabilities(p, thread, who);
    plan_parent_death(p, thread, who);
    plan_thread_signals(p, thread);
    return {};
}

Result<Thread> start_of(const image::Thread &from, const RestartOptions &options)
{
    Thread thread = {};
    if (from.layout != image::RegisterLayout::x86_64_parked ||
        from.registers.size() != sizeof(thread.context))
        return Error(ENOTSUP, fmt::format("thread {} was saved in a way that this release cannot "
                                          "restore",
                                          from.tid));
    thread.tid = options.keeps(from.tid) ? static_cast<int32_t>(from.tid) : 0;
    thread.clear_child_tid = options.rehearse ? 0 : from.clear_child_tid;
    memcpy(&thread.context, from.registers.data(), sizeof(thread.context));
    return thread;
}

} // namespace

Result<void> plan_process(Planning &p)
{
    Program &program = p.plan.program;
    const image::Process &process = p.saved.process;
    if (process.uid != getuid() || process.gid != getgid())
        return Error(EPERM, fmt::format("the image belongs to user {} group {}; restart it as that "
                                        "user",
                                        process.uid, process.gid));
    plan_actions(p);
    if (Result<void> done = plan_credentials(p); !done)
        return done;
    program.call("setting the umask", SYS_umask, {value(process.umask)});
    if (process.memory_merge)
        plan_memory_merge(p);
    constexpr uint32_t first_of_all = 1; // of a container: orphans were its children
    if (process.child_subreaper || process.pid == first_of_all)
        program.call("becoming a subreaper", SYS_prctl,
                     {value(PR_SET_CHILD_SUBREAPER), value(1), value(0), value(0), value(0)});
    for (uint32_t command = 1; command != 0; command <<= 1) {
        if ((process.membarrier & command) != 0)
            program.try_call("registering for memory barriers", SYS_membarrier,
                             {value(command), value(0), value(0)});
    }
    return {};
}

Result<void> plan_threads(Planning &p)
{
    Program &program = p.plan.program;
    if (p.saved.threads().empty())
        return Error(EINVAL, "the image has no threads");
    if (Result<void> placed = place_filters(p); !placed)
        return placed;
    program.add(Do::threads,
                "creating the threads with their ids (one is in use here, or needs a privilege; "
                "with --pidns all ids are free; --no-restore-pid gives new ones)",
                {});
    for (size_t i = 0; i < p.saved.threads().size(); i++) {
        Result<Thread> thread = start_of(p.saved.threads()[i], p.options);
        if (!thread)
            return thread.error();
        if (i == 0) {
            program.set_main_thread(*thread);
            if (Result<void> planned = plan_thread_state(p, p.saved.threads()[i]); !planned)
                return planned;
            continue;
        }
        program.begin_thread(*thread);
        if (Result<void> planned = plan_thread_state(p, p.saved.threads()[i]); !planned)
            return planned;
        if (Result<void> filtered = plan_filters(p, p.saved.threads()[i]); !filtered)
            return filtered;
        program.end_thread();
    }
    return {};
}

} // namespace cryo::restore
