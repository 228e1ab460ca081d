// SPDX-License-Identifier: Apache-2.0
// Attached segments of System V shared memory. One attachment may have become several
// regions, by mprotect(2), and have lost some of its pages, by munmap(2): it is attached
// whole, and missing parts are detached again. So this comes before anything else is mapped.
#include "restore/ipc_objects.hpp"
#include "restore/plan_parts.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>

namespace cryo::restore {

namespace {

struct Attachment {
    std::vector<Range> parts; // ascending
    int flags = 0;            // SHM_
};

} // namespace

bool is_segment(const image::Region &region)
{
    return region.kind == image::RegionKind::sysv_shm;
}

Result<void> plan_segments(Planning &p)
{
    std::map<std::pair<uint32_t, uint64_t>, Attachment> all; // object, address of its first page
    for (const image::Region &region : p.saved.regions()) {
        if (!is_segment(region))
            continue;
        const uint64_t offset = region.object_page * image::kPageSize;
        if (p.ipc == nullptr || p.ipc->segment(region.object).id < 0 || offset > region.start)
            return Error(EINVAL, "memory refers to no System V segment");
        Attachment &one = all[{region.object, region.start - offset}];
        one.parts.push_back({region.start, region.end});
        one.flags |= (region.flags & image::kRegionReadOnly) != 0 ? SHM_RDONLY : 0;
        one.flags |= (region.prot & PROT_EXEC) != 0 ? SHM_EXEC : 0;
    }
    Program &program = p.plan.program;
    for (const auto &[key, one] : all) {
        const auto &[object, start] = key;
        const IpcObjects::Segment segment = p.ipc->segment(object);
        const uint64_t end =
            start + (segment.size + image::kPageSize - 1) / image::kPageSize * image::kPageSize;
        if (one.parts.back().end > end)
            return Error(EINVAL, "memory is larger than its System V segment");
        program.avoid(start, end);
        program.call_exact(fmt::format("attaching the System V segment {} at {:x}, all of which "
                                       "must be free there",
                                       segment.id, start),
                           SYS_shmat, start, {value(segment.id), value(start), value(one.flags)});
        uint64_t at = start;
        const auto detach = [&](uint64_t to) {
            if (at < to)
                program.call("detaching a part of a segment", SYS_munmap,
                             {value(at), value(to - at)});
        };
        for (const Range &part : one.parts) {
            detach(part.start);
            at = part.end;
        }
        detach(end);
    }
    return {};
}

} // namespace cryo::restore
