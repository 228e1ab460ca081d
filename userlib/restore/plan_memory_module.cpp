// SPDX-License-Identifier: Apache-2.0
// Memory by the kernel module: one RESTORE gives up the fresh process's memory, maps the regions
// and fills them; where advice or a policy has to come in between, a second one fills them. What
// the module cannot make (hugetlbfs, memory that has another object behind it) is mapped
// afterwards, as without the module.
#include "restore/plan_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <linux/cryo.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>

namespace cryo::restore {

using image::RegionKind;

namespace {

// Whether advice or a policy decides which pages the kernel takes when the region is filled.
bool has_choice_of_pages(const image::Region &region)
{
    constexpr uint32_t sizes = image::kRegionHugePages | image::kRegionNoHugePages;
    return (region.flags & sizes) != 0 || region.numa_mode != MPOL_DEFAULT;
}

// `bytes`: of all ranges.
void add_restore(Planning &p, const cryo_restore &command, const Operand &regions,
                 const Operand &ranges, uint64_t bytes)
{
    Program &program = p.plan.program;
    const Operand data = program.data(&command, sizeof(command));
    const auto member = [](const Operand &of, size_t offset) {
        return Operand{of.kind, of.number + offset};
    };
    // Addresses are known only in the new process.
    program.add(Do::store, "placing the regions",
                {member(data, offsetof(cryo_restore, regions)), regions});
    program.add(Do::store, "placing the ranges",
                {member(data, offsetof(cryo_restore, ranges)), ranges});
    program.add(Do::restore, "making the memory with the kernel module",
                {value(p.plan.header.device_fd), data, value(bytes)});
}

} // namespace

bool module_makes(const Planning &p, const image::Region &region)
{
    if (p.options.device < 0 || p.kept != nullptr || is_lazy(p, region) ||
        (region.flags & image::kRegionDroppable) != 0)
        return false;
    const bool shared = (region.flags & image::kRegionShared) != 0;
    switch (region.kind) {
    case RegionKind::anonymous:
    case RegionKind::heap:
    case RegionKind::stack:
    case RegionKind::private_file:
        return !shared;
    default:
        return false;
    }
}

Result<void> plan_module_memory(Planning &p)
{
    Program &program = p.plan.program;
    std::vector<cryo_region> regions;
    std::vector<cryo_range> ranges;
    uint64_t bytes = 0;
    for (const image::Region &from : p.saved.regions()) {
        if (!module_makes(p, from))
            continue;
        cryo_region region = {};
        region.fd = -1;
        if ((from.flags & image::kRegionNoReserve) != 0)
            region.flags |= CRYO_REGION_NORESERVE;
        if ((from.flags & image::kRegionGrowsDown) != 0)
            region.flags |= CRYO_REGION_GROWSDOWN;
        Result<std::vector<Stretch>> stretches = stretches_of(p.image, from);
        if (!stretches)
            return stretches.error();
        for (const Stretch &one : *stretches) {
            region.start = one.start;
            region.end = one.end;
            region.prot = one.prot;
            if (needs_file(from)) {
                region.offset = from.file_offset + (one.start - from.start);
                region.fd = fd_to_map(p, from);
            }
            regions.push_back(region);
        }
        Result<std::vector<Range>> parts = filled_parts(p, from);
        if (!parts)
            return parts.error();
        for (const Range &part : *parts) {
            ranges.push_back({part.start, part.end});
            bytes += part.end - part.start;
        }
    }

    cryo_restore command = {};
    command.size = sizeof(command);
    command.nr_regions = static_cast<uint32_t>(regions.size());
    command.nr_ranges = static_cast<uint32_t>(ranges.size());
    command.fd = p.plan.floor + pages_fd_offset;
    const Operand list = program.data(regions.data(), regions.size() * sizeof(cryo_region));
    const Operand parts = program.data(ranges.data(), ranges.size() * sizeof(cryo_range));
    const bool in_two = std::ranges::any_of(p.saved.regions(), [&](const image::Region &region) {
        return module_makes(p, region) && has_choice_of_pages(region);
    });
    if (in_two) {
        cryo_restore only_map = command;
        only_map.nr_ranges = 0;
        add_restore(p, only_map, list, parts, 0);
        for (const image::Region &region : p.saved.regions()) {
            if (module_makes(p, region))
                plan_choice_of_pages(p, region);
        }
        command.mapped = command.nr_regions;
    }
    add_restore(p, command, list, parts, bytes);
    return {};
}

} // namespace cryo::restore
