// SPDX-License-Identifier: Apache-2.0
// Scheduling policies and nice values of threads. cr_restart's own, which they begin with, need not
// be the usual ones: nice(1), a batch system or cron may have started it.
#include "restore/plan_parts.hpp"
#include "restore/scheduling.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

namespace cryo::restore {

namespace {

int own_policy()
{
    return sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
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
    if (!may_have_nice(thread.nice))
        notice_once(p, fmt::format("the processes keep the nice value of cr_restart, {}: lowering "
                                   "it needs a privilege",
                                   nice));
    else if (thread.nice != nice)
        program.call(who + "setting its nice value", SYS_setpriority,
                     {value(PRIO_PROCESS), value(0), value(thread.nice)});
}

} // namespace cryo::restore
