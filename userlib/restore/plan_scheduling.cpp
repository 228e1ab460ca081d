// SPDX-License-Identifier: Apache-2.0
// Scheduling policies and nice values of threads. cr_restart's own, which they begin with, need not
// be the usual ones: nice(1), a batch system or cron may have started it.
#include "restore/plan_parts.hpp"
#include "restore/scheduling.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

// As sched_setattr(2) takes it.
struct SchedAttr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

int own_policy()
{
    return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
}

// A time slice that the program has asked for, once the policy and the nice value are there.
void plan_slice(Planning &p, const image::Thread &thread, int nice, const std::string &who)
{
    const bool is_fair = thread.policy == SCHED_OTHER || thread.policy == SCHED_BATCH;
    if (thread.deadline_runtime == 0 || !is_fair)
        return;
    SchedAttr attr = {};
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) != 0 || attr.runtime == 0) {
        notice_once(p, "threads have no time slices of their own (sched_setattr): this kernel has "
                       "none, as those before Linux 6.12");
        return;
    }
    attr = {};
    attr.size = sizeof(attr);
    attr.policy = thread.policy;
    attr.flags = thread.sched_flags & 1;
    attr.nice = nice;
    attr.runtime = thread.deadline_runtime;
    p.plan.program.call(who + "setting its time slice", SYS_sched_setattr,
                        {value(0), p.plan.program.data(&attr, sizeof(attr)), value(0)});
}

} // namespace

// The way back, to a higher value, is open to everybody.
bool may_have_nice(int nice)
{
    const int own = getpriority(PRIO_PROCESS, 0);
    if (nice >= own)
        return true;
    if (setpriority(PRIO_PROCESS, 0, nice) != 0)
        return false;
    setpriority(PRIO_PROCESS, 0, own);
    return true;
}

// Only SCHED_IDLE is not everybody's to leave; to come back to it is.
bool may_have_policy(int policy)
{
    const bool is_fair = policy == SCHED_OTHER || policy == SCHED_BATCH;
    if (own_policy() != SCHED_IDLE || !is_fair)
        return true;
    const sched_param none = {};
    if (sched_setscheduler(0, policy, &none) != 0)
        return false;
    sched_setscheduler(0, SCHED_IDLE, &none);
    return true;
}

void plan_scheduling(Planning &p, const image::Thread &thread, const std::string &who)
{
    Program &program = p.plan.program;
    const auto policy = static_cast<int>(thread.policy);
    const bool reset = (thread.sched_flags & 1) != 0; // SCHED_FLAG_RESET_ON_FORK
    if (!may_have_policy(policy)) {
        notice_once(
            p, "the processes keep the scheduling policy of cr_restart, SCHED_IDLE: leaving it "
               "takes a privilege");
    } else if (policy != SCHED_OTHER || policy != own_policy() ||
               reset) { // or the priority differs
        const sched_param param = {static_cast<int>(thread.priority)};
        program.call(who + "setting its scheduling policy", SYS_sched_setscheduler,
                     {value(0), value(policy | (reset ? SCHED_RESET_ON_FORK : 0)),
                      program.data(&param, sizeof(param))});
    }
    const int nice = getpriority(PRIO_PROCESS, 0);
    const bool may = may_have_nice(thread.nice);
    if (!may)
        notice_once(p, fmt::format("the processes keep the nice value of cr_restart, {}: lowering "
                                   "it needs a privilege",
                                   nice));
    else if (thread.nice != nice)
        program.call(who + "setting its nice value", SYS_setpriority,
                     {value(PRIO_PROCESS), value(0), value(thread.nice)});
    if (may_have_policy(policy))
        plan_slice(p, thread, may ? thread.nice : nice, who);
}

} // namespace cryo::restore
