// SPDX-License-Identifier: Apache-2.0
#include "restore/planner.hpp"

#include "base/path.hpp"
#include "restore/plan_parts.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

// The restored program may ask where it came from (cr_get_restart_info).
void tell_source(Planning &p)
{
    constexpr uint32_t first_with_source = 2;
    std::string source = absolute_path(p.image.name());
    if (p.saved.agent.protocol < first_with_source || access(source.c_str(), F_OK) != 0 ||
        source.size() + 8 > sizeof(agent::ResumeInfo::source))
        source.clear();
    source.resize((source.size() / 8 + 1) * 8);
    if (p.saved.agent.protocol < first_with_source)
        return;
    const uint64_t at = p.saved.agent.resume_info + offsetof(agent::ResumeInfo, source);
    for (size_t i = 0; i < source.size(); i += 8) {
        uint64_t word;
        memcpy(&word, &source[i], sizeof(word));
        p.plan.program.add(Do::store, "telling the program its image",
                           {value(at + i), value(word)});
    }
}

// State that lives in the process without being saved
// starts anew, with the environment of cr_restart.
void tell_environment(Planning &p)
{
    constexpr uint32_t first_with_environment = 3;
    const int fd = p.plan.floor + environment_fd_offset;
    if (p.saved.agent.protocol >= first_with_environment)
        p.plan.program.add(
            Do::store, "telling the program where the environment is",
            {value(p.saved.agent.resume_info + offsetof(agent::ResumeInfo, environment)),
             value(fd + 1)});
    else
        p.plan.program.call("closing", SYS_close, {value(fd)});
}

// Each process reports that it has come so far, and waits until cr_restart has all reports.
void plan_rendezvous(Planning &p, uint32_t word)
{
    Program &program = p.plan.program;
    const char byte = 0;
    program.call_exact(
        "telling how far it is", SYS_write, sizeof(word),
        {value(p.plan.header.status_fd), program.data(&word, sizeof(word)), value(sizeof(word))});
    program.call_exact("waiting for the other processes", SYS_read, sizeof(byte),
                       {value(p.plan.floor + go_fd_offset), program.data(&byte, sizeof(byte)),
                        value(sizeof(byte))});
}

} // namespace

void notice_once(Planning &p, std::string notice)
{
    if (std::ranges::find(p.plan.notices, notice) == p.plan.notices.end())
        p.plan.notices.push_back(std::move(notice));
}

Result<void> plan_process_whole(Planning &p, bool alone)
{
    RestartPlan &plan = p.plan;
    plan.pid = p.options.keeps(p.saved.process.pid) ? p.saved.process.pid : 0;
    plan.personality = p.saved.process.personality;
    plan.cut_realtime = p.saved.process.cut_realtime;
    plan.header.resume_info = p.saved.agent.resume_info;
    plan.header.plan_fd = plan.floor + plan_fd_offset;
    plan.header.status_fd = plan.floor + status_fd_offset;
    plan.header.device_fd = p.options.device >= 0 ? plan.floor + device_fd_offset : -1;

    plan_not_dumpable(p);
    using Step = Result<void> (*)(Planning &);
    for (const Step step : {Step(check_cpu), Step(check_surroundings), Step(check_mapped_files),
                            Step(plan_exec), Step(plan_files), Step(plan_room), Step(plan_memory),
                            Step(plan_process), Step(plan_threads)}) {
        if (p.kept != nullptr && step == Step(plan_exec))
            continue; // a copy executes nothing
        if (Result<void> done = step(p); !done)
            return done.error().within(p.image.name());
    }
    plan_last_descriptor_work(p);
    if (!alone)
        plan_rendezvous(p, says_ready);
    plan_truncation(p);
    if (Result<void> undone = plan_semaphore_undo(p); !undone)
        return undone.error().within(p.image.name());
    if (!p.saved.of<image::SemaphoreUndo>().empty())
        plan_rendezvous(p, says_undo);
    plan_semaphore_pids(p);
    for (const Step step : {Step(plan_process_signals), Step(plan_timers)}) {
        if (Result<void> done = step(p); !done)
            return done.error().within(p.image.name());
    }
    plan_limits(p);
    if (!p.options.rehearse) { // a rehearsal's memory must stay as it was saved
        tell_source(p);
        tell_environment(p);
    }
    plan_write_execute(p);
    plan_dumpable(p);
    plan_stop(p);
    if (Result<void> filtered = plan_filters(p, p.saved.threads().front()); !filtered)
        return filtered.error().within(p.image.name());
    if (!alone)
        plan_rendezvous(p, says_complete);
    plan.program.call("closing", SYS_close, {value(plan.floor + go_fd_offset)});
    plan.program.call("closing", SYS_close, {value(plan.header.plan_fd)});
    if (plan.program.too_many_slots())
        return Error(EMFILE, p.image.name() + ": more open files than a restart can handle");
    return {};
}

} // namespace cryo::restore
