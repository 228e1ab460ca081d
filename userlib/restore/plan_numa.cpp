// SPDX-License-Identifier: Apache-2.0
// NUMA policies of threads and of memory. They only affect speed: if a policy
// cannot be set, there is a notice, and the kernel chooses where memory lies.
#include "restore/plan_parts.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

// Whether this kernel accepts the policy: it is set for this process and reset.
bool is_possible(uint32_t mode, image::Bytes nodes)
{
    constexpr int most = 1024;
    unsigned long before[most / 64] = {};
    int mode_before = 0;
    if (syscall(SYS_get_mempolicy, &mode_before, before, most, nullptr, 0) != 0)
        return false;
    if (syscall(SYS_set_mempolicy, mode, nodes.data(), nodes.size() * 8) != 0)
        return false;
    syscall(SYS_set_mempolicy, mode_before, before, most);
    return true;
}

bool plan(Planning &p, std::string_view whose, uint32_t mode, image::Bytes nodes)
{
    if (mode == MPOL_DEFAULT)
        return false;
    if (is_possible(mode, nodes))
        return true;
    notice_once(p, fmt::format("the NUMA policy of {} cannot be set here, and is left out", whose));
    return false;
}

} // namespace

void plan_thread_policy(Planning &p, const image::Thread &thread)
{
    if (plan(p, fmt::format("thread {}", thread.tid), thread.numa_mode, thread.numa_nodes))
        p.plan.program.call(
            fmt::format("thread {}: setting its NUMA policy", thread.tid), SYS_set_mempolicy,
            {value(thread.numa_mode),
             p.plan.program.data(thread.numa_nodes.data(), thread.numa_nodes.size()),
             value(thread.numa_nodes.size() * 8)});
}

void plan_region_policy(Planning &p, const image::Region &region)
{
    if (plan(p, fmt::format("memory at {:x}", region.start), region.numa_mode, region.numa_nodes))
        p.plan.program.call(
            fmt::format("setting the NUMA policy of memory at {:x}", region.start), SYS_mbind,
            {value(region.start), value(region.end - region.start), value(region.numa_mode),
             p.plan.program.data(region.numa_nodes.data(), region.numa_nodes.size()),
             value(region.numa_nodes.size() * 8), value(0)});
}

} // namespace cryo::restore
