// SPDX-License-Identifier: Apache-2.0
// Guard pages: they are in the page tables only, so no mapping shows them.
#include "restore/plan_parts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>

namespace cryo::restore {

namespace {

constexpr int guard_install = 102; // MADV_GUARD_INSTALL, for headers that are older

// With length 0 nothing is changed: the kernel only checks whether it knows the advice.
bool knows_guards()
{
    return madvise(nullptr, 0, guard_install) == 0;
}

std::vector<Range> guards_of(const Planning &p, const image::Region &region)
{
    std::vector<Range> within;
    for (const image::Guard &guard : p.saved.of<image::Guard>()) {
        const Range part = {std::max(guard.start, region.start), std::min(guard.end, region.end)};
        if (part.start < part.end)
            within.push_back(part);
    }
    return within;
}

} // namespace

void plan_guards(Planning &p, const image::Region &region)
{
    const std::vector<Range> guards = guards_of(p, region);
    const bool known = guards.empty() || knows_guards();
    for (const Range &guard : guards) {
        const Operand start = value(guard.start);
        const Operand size = value(guard.end - guard.start);
        const std::string what = fmt::format("guarding memory at {:x}", guard.start);
        if (known)
            p.plan.program.call(what, SYS_madvise, {start, size, value(guard_install)});
        else
            p.plan.program.call(what, SYS_mprotect, {start, size, value(PROT_NONE)});
    }
    if (!known)
        p.plan.notices.push_back(fmt::format(
            "memory at {:x} has guard pages, which this kernel does not support: they become pages "
            "without access (PROT_NONE), and the program cannot remove them "
            "by MADV_GUARD_REMOVE",
            guards.front().start));
}

// Guard pages cannot be locked: mlock fails because of them, after it has done its work.
void plan_lock(Planning &p, const image::Region &region)
{
    const bool on_fault = (region.flags & image::kRegionLockOnFault) != 0;
    const auto lock = [&](uint64_t start, uint64_t end, bool guarded) {
        const std::string what = fmt::format("locking memory at {:x}", start);
        const Operand from = value(start);
        const Operand size = value(end - start);
        const Operand flags = value(on_fault ? MLOCK_ONFAULT : 0);
        if (guarded)
            p.plan.program.try_call(what, SYS_mlock2, {from, size, flags});
        else if (start < end)
            p.plan.program.call(what, SYS_mlock2, {from, size, flags});
    };
    uint64_t at = region.start;
    for (const Range &guard : guards_of(p, region)) {
        lock(at, guard.start, false);
        lock(guard.start, guard.end, true);
        at = guard.end;
    }
    lock(at, region.end, false);
}

} // namespace cryo::restore
