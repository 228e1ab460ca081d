// SPDX-License-Identifier: Apache-2.0
// Resource limits. A program may have lowered a limit below its usage, and may use more
// than the soft limit that cr_restart was started with. So the soft limits of memory are
// raised to the hard ones before memory is made, and all limits are set to the program's
// when it is complete: when nothing is opened, created, queued or written any more.
#include "restore/plan_parts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>

namespace cryo::restore {

namespace {

constexpr int of_memory[] = {RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK};

void set_limit(Planning &p, uint32_t resource, const rlimit &limit)
{
    Program &program = p.plan.program;
    program.call(fmt::format("setting resource limit {}", resource), SYS_prlimit64,
                 {value(0), value(resource), program.data(&limit, sizeof(limit)), value(0)});
}

bool look_at(uint32_t resource, rlimit &limit)
{
    return getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0;
}

} // namespace

Result<void> plan_room(Planning &p)
{
    for (const int resource : of_memory) {
        rlimit now;
        if (!look_at(static_cast<uint32_t>(resource), now) || now.rlim_cur == now.rlim_max)
            continue;
        now.rlim_cur = now.rlim_max;
        set_limit(p, static_cast<uint32_t>(resource), now);
    }
    return {};
}

void plan_limits(Planning &p)
{
    for (const image::Rlimit &saved : p.saved.of<image::Rlimit>()) {
        rlimit now;
        if (p.options.rehearse && saved.resource == RLIMIT_CORE)
            continue; // it must not dump core
        if (!look_at(saved.resource, now))
            continue; // a limit this kernel does not know
        rlimit wanted = {saved.soft, saved.hard};
        if (wanted.rlim_max > now.rlim_max) {
            // Only root may raise a hard limit: the restored program gets what we have.
            wanted.rlim_max = now.rlim_max;
            if (wanted.rlim_cur > now.rlim_max) {
                wanted.rlim_cur = now.rlim_max;
                p.plan.notices.push_back(
                    fmt::format("limit {} is {} here, {} when the image was taken", saved.resource,
                                now.rlim_max, saved.soft));
            }
        }
        const bool is_raised =
            std::ranges::find(of_memory, static_cast<int>(saved.resource)) != std::end(of_memory);
        if (is_raised || wanted.rlim_cur != now.rlim_cur || wanted.rlim_max != now.rlim_max)
            set_limit(p, saved.resource, wanted);
    }
}

} // namespace cryo::restore
