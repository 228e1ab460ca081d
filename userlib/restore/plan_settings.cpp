// SPDX-License-Identifier: Apache-2.0
// Settings of prctl(2) that a thread inherits from the one that made it, in the end from
// cr_restart, and memory that may be written or executed, but not both.
#include "restore/plan_parts.hpp"
#include "restore/speculation.hpp"
#include "sys/newer_numbers.hpp"

#include <algorithm>
#include <asm/prctl.h>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <linux/prctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace cryo::restore {

namespace {

constexpr unsigned speculation_kinds = 3;

constexpr const char *name_of_speculation(unsigned which)
{
    constexpr const char *names[speculation_kinds] = {
        "PR_SPEC_STORE_BYPASS", "PR_SPEC_INDIRECT_BRANCH", "PR_SPEC_L1D_FLUSH"};
    return names[which];
}

uint32_t own_speculation(unsigned which)
{
    return static_cast<uint32_t>(std::max(prctl(PR_GET_SPECULATION_CTRL, which, 0, 0, 0), 0));
}

// A thread that ends at once tries it: cr_restart itself, and thereby others, would keep it.
int error_of_speculation(unsigned which, uint32_t set)
{
    int error = 0;
    std::thread([&] {
        error = prctl(PR_SET_SPECULATION_CTRL, which, set, 0, 0) == 0 ? 0 : errno;
    }).join();
    return error;
}

constexpr uint32_t traps = 1; // 1 + what ARCH_GET_CPUID tells

// As above. The thread must not end so: the C library may ask the processor.
int error_of_trapping_cpuid()
{
    int error = 0;
    std::thread([&] {
        error = syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0) == 0 ? 0 : errno;
        syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1);
    }).join();
    return error;
}

void plan_speculation(Planning &p, const image::Thread &thread, const std::string &who)
{
    for (unsigned which = 0; which < std::min<size_t>(thread.speculation.size(), speculation_kinds);
         which++) {
        const SpeculationChoice choice =
            choose_speculation(which, thread.speculation[which], own_speculation(which));
        std::string why(choice.obstacle);
        const int error = choice.set != 0 ? error_of_speculation(which, choice.set) : 0;
        if (error != 0)
            why = strerror(error);
        if (!why.empty())
            notice_once(p, fmt::format("speculation control ({}) is not as it was: {}",
                                       name_of_speculation(which), why));
        else if (choice.set != 0)
            p.plan.program.call(who + "setting its speculation control", SYS_prctl,
                                {value(PR_SET_SPECULATION_CTRL), value(which), value(choice.set),
                                 value(0), value(0)});
    }
}

// A restart begins with a program that may ask the processor, as every executed one.
Result<void> plan_cpuid(Planning &p, const image::Thread &thread, const std::string &who)
{
    if (thread.cpuid != traps)
        return {};
    if (const int error = error_of_trapping_cpuid(); error != 0)
        return Error(
            ENOTSUP,
            fmt::format("{}the instruction CPUID was a signal for it (ARCH_SET_CPUID), and "
                        "cannot be one here ({}): restart it on a processor with CPUID "
                        "faulting (cpuid_fault in /proc/cpuinfo)",
                        who, strerror(error)));
    p.plan.program.call(who + "letting CPUID be a signal for it", SYS_arch_prctl,
                        {value(ARCH_SET_CPUID), value(0)});
    return {};
}

} // namespace

SpeculationChoice choose_speculation(unsigned which, uint32_t saved, uint32_t here)
{
    const uint32_t usual =
        PR_SPEC_PRCTL | (which == PR_SPEC_L1D_FLUSH ? PR_SPEC_DISABLE : PR_SPEC_ENABLE);
    if ((saved & PR_SPEC_PRCTL) == 0) // nor had the program a choice, or nobody has asked
        return {};
    if (saved == usual && (here == usual || (here & PR_SPEC_PRCTL) == 0))
        return {};
    if ((here & PR_SPEC_PRCTL) == 0)
        return {0, "the CPU or the kernel here leaves programs no choice"};
    if ((here & PR_SPEC_FORCE_DISABLE) != 0 && (saved & PR_SPEC_FORCE_DISABLE) == 0)
        return {0, "cr_restart's surroundings have disabled it for good"};
    return {static_cast<uint32_t>(saved & ~PR_SPEC_PRCTL), {}};
}

Result<void> plan_thread_settings(Planning &p, const image::Thread &thread, const std::string &who)
{
    Program &program = p.plan.program;
    int tsc = PR_TSC_ENABLE;
    prctl(PR_GET_TSC, &tsc);
    if (thread.tsc != 0 && (thread.tsc != PR_TSC_ENABLE || tsc != PR_TSC_ENABLE))
        program.call(who + "setting whether it may read the time-stamp counter", SYS_prctl,
                     {value(PR_SET_TSC), value(thread.tsc)});
    const uint32_t usual = 1 + PR_MCE_KILL_DEFAULT;
    if (thread.machine_check != 0 && (thread.machine_check != usual ||
                                      prctl(PR_MCE_KILL_GET, 0, 0, 0, 0) != PR_MCE_KILL_DEFAULT))
        program.call(who + "setting when it is told of broken memory", SYS_prctl,
                     {value(PR_MCE_KILL), value(PR_MCE_KILL_SET), value(thread.machine_check - 1),
                      value(0), value(0)});
    plan_speculation(p, thread, who);
    return plan_cpuid(p, thread, who);
}

// There is no memory of the program's yet: until then only a fresh process can be looked into.
void plan_not_dumpable(Planning &p)
{
    const image::Process &process = p.saved.process;
    if (process.dumpable == 1 || process.uid != 0)
        return;
    p.plan.program.call("forbidding that others look into it", SYS_prctl,
                        {value(PR_SET_DUMPABLE), value(0), value(0), value(0), value(0)});
    constexpr uint32_t for_root_alone = 2;
    if (process.dumpable == for_root_alone)
        notice_once(p, "the program leaves no core: its would have been for root alone "
                       "(fs.suid_dumpable = 2), which no process can ask for");
}

// A copy of a process that is not dumpable is not, either; it has its own memory by now.
void plan_dumpable(Planning &p)
{
    if (p.kept != nullptr && p.saved.process.dumpable == 1)
        p.plan.program.call("allowing others to look into it", SYS_prctl,
                            {value(PR_SET_DUMPABLE), value(1), value(0), value(0), value(0)});
}

// Nothing takes it back, and programs inherit it over execve.
void plan_write_execute(Planning &p)
{
    const uint32_t wanted = p.saved.process.write_execute;
    const int own = prctl(sys::pr_get_mdwe, 0, 0, 0, 0);
    const bool is_inherited = own > 0 && (static_cast<uint32_t>(own) & sys::mdwe_no_inherit) == 0;
    if (is_inherited && static_cast<uint32_t>(own) != wanted)
        notice_once(p, "no memory can become executable that may be written: cr_restart's "
                       "surroundings forbid it (PR_SET_MDWE)");
    else if (wanted != 0 && own < 0)
        notice_once(p, "memory that may be written can become executable (PR_SET_MDWE): this "
                       "kernel cannot forbid it");
    else if (wanted != 0 && !is_inherited)
        p.plan.program.call("forbidding memory that may be written and executed (PR_SET_MDWE; "
                            "PR_MDWE_NO_INHERIT from Linux 6.6 on)",
                            SYS_prctl,
                            {value(sys::pr_set_mdwe), value(wanted), value(0), value(0), value(0)});
}

} // namespace cryo::restore
