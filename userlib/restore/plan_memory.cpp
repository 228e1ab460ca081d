// SPDX-License-Identifier: Apache-2.0
// Memory: every region at its old place, filled, then given its protection.
#include "restore/plan_copies.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/prctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::restore {

using image::RegionKind;

bool needs_file(const image::Region &region)
{
    return region.file != 0 && (region.flags & image::kRegionAllSaved) == 0;
}

namespace {

constexpr int map_droppable = 8; // MAP_DROPPABLE, for headers that are older

bool knows_droppable()
{
    void *page = mmap(nullptr, image::kPageSize, PROT_READ, map_droppable | MAP_ANONYMOUS, -1, 0);
    return page != MAP_FAILED && munmap(page, image::kPageSize) == 0;
}

Result<void> map_region(Planning &p, const image::Region &region)
{
    Program &program = p.plan.program;
    const bool shared = (region.flags & image::kRegionShared) != 0;
    int flags = MAP_FIXED_NOREPLACE | (shared ? MAP_SHARED : MAP_PRIVATE);
    // A kernel that does not know such memory does not drop it, which is permitted.
    if ((region.flags & image::kRegionDroppable) != 0 && knows_droppable())
        flags = MAP_FIXED_NOREPLACE | map_droppable;
    if ((region.flags & image::kRegionNoReserve) != 0)
        flags |= MAP_NORESERVE;
    if ((region.flags & image::kRegionGrowsDown) != 0)
        flags |= MAP_GROWSDOWN;
    flags |= huge_page_flags(p, region);
    Operand file = value(-1);
    uint64_t offset = 0;
    if (needs_file(region)) {
        file = value(fd_to_map(p, region));
        offset = region.file_offset;
    } else {
        flags |= MAP_ANONYMOUS;
    }
    Result<std::vector<Stretch>> stretches = stretches_of(p.image, region);
    if (!stretches)
        return stretches.error();
    for (const Stretch &one : *stretches)
        program.call_exact(
            fmt::format("mapping {:x}-{:x} {}", one.start, one.end,
                        region.file != 0 ? p.saved.files().at(region.file).path : ""),
            SYS_mmap, one.start,
            {value(one.start), value(one.end - one.start), value(one.prot), value(flags), file,
             value(offset + (one.start - region.start))});
    return {};
}

Result<void> fill_region(Planning &p, const image::Region &region)
{
    Result<std::vector<Range>> parts = filled_parts(p, region);
    if (!parts)
        return parts.error();
    for (const Range &part : *parts)
        p.plan.program.add(Do::fill, fmt::format("filling memory at {:x}", part.start),
                           {value(p.plan.floor + pages_fd_offset), value(part.start),
                            value(part.end - part.start)});
    return {};
}

void advise_size(Program &program, const image::Region &region)
{
    constexpr uint32_t either = image::kRegionHugePages | image::kRegionNoHugePages;
    const bool were_huge = region.kind == RegionKind::hugetlb; // they may have become ordinary ones
    if ((region.flags & either) == 0 && !were_huge)
        return;
    const bool huge = were_huge || (region.flags & image::kRegionHugePages) != 0;
    program.try_call("advising about memory", SYS_madvise,
                     {value(region.start), value(region.end - region.start),
                      value(huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE)});
}

void advise(Program &program, const image::Region &region)
{
    const struct {
        uint32_t flag;
        int advice;
    } table[] = {
        {image::kRegionDontFork, MADV_DONTFORK},      {image::kRegionWipeOnFork, MADV_WIPEONFORK},
        {image::kRegionDontDump, MADV_DONTDUMP},      {image::kRegionHugePages, MADV_HUGEPAGE},
        {image::kRegionNoHugePages, MADV_NOHUGEPAGE}, {image::kRegionSequential, MADV_SEQUENTIAL},
        {image::kRegionRandom, MADV_RANDOM},          {image::kRegionMergeable, MADV_MERGEABLE},
    };
    for (const auto &[flag, advice] : table) {
        if ((region.flags & flag) != 0)
            program.try_call(
                "advising about memory", SYS_madvise,
                {value(region.start), value(region.end - region.start), value(advice)});
    }
}

void finish_region(Planning &p, const image::Region &region)
{
    Program &program = p.plan.program;
    const Operand start = value(region.start);
    const Operand size = value(region.end - region.start);
    advise(program, region);
    if ((region.prot & PROT_WRITE) == 0)
        program.call("protecting memory", SYS_mprotect, {start, size, value(region.prot)});
    plan_guards(p, region);
    if ((region.flags & image::kRegionLocked) != 0)
        plan_lock(p, region);
    if (!region.name.empty())
        program.try_call("naming memory", SYS_prctl,
                         {value(PR_SET_VMA), value(PR_SET_VMA_ANON_NAME), start, size,
                          program.text(region.name)});
    constexpr int mseal = 462;
    if ((region.flags & image::kRegionSealed) != 0 &&
        (syscall(mseal, nullptr, 0, 0) == 0 || errno != ENOSYS))
        program.call(fmt::format("sealing memory at {:x}", region.start), mseal,
                     {start, size, value(0)});
    else if ((region.flags & image::kRegionSealed) != 0)
        p.plan.notices.push_back(fmt::format("memory at {:x} was sealed (mseal), which this kernel "
                                             "does not support: it can be unmapped and changed",
                                             region.start));
}

void plan_layout(Planning &p)
{
    const image::Memory &m = p.saved.memory;
    prctl_mm_map map = {};
    map.start_code = m.start_code;
    map.end_code = m.end_code;
    map.start_data = m.start_data;
    map.end_data = m.end_data;
    map.start_brk = m.start_brk;
    map.brk = m.brk;
    map.start_stack = m.start_stack;
    map.arg_start = m.arg_start;
    map.arg_end = m.arg_end;
    map.env_start = m.env_start;
    map.env_end = m.env_end;
    map.exe_fd = ~0U;
    map.auxv_size = static_cast<uint32_t>(p.saved.auxv.size() * sizeof(uint64_t));
    Program &program = p.plan.program;
    const Operand auxv = program.data(p.saved.auxv.data(), p.saved.auxv.size() * sizeof(uint64_t));
    const Operand data = program.data(&map, sizeof(map));
    // The structure holds a pointer to the auxiliary vector: written when its address is known.
    program.add(Do::store, "placing the auxiliary vector",
                {{data.kind, data.number + offsetof(prctl_mm_map, auxv)}, auxv});
    program.call("setting the memory layout", SYS_prctl,
                 {value(PR_SET_MM), value(PR_SET_MM_MAP), data, value(sizeof(map)), value(0)});
}

// Before memory is filled: huge pages would stay.
void plan_huge_pages_off(Planning &p)
{
    constexpr int except_advised = 2; // PR_THP_DISABLE_EXCEPT_ADVISED, since Linux 6.18
    if (!p.saved.process.thp_disable)
        return;
    p.plan.program.call("switching huge pages off", SYS_prctl,
                        {value(PR_SET_THP_DISABLE), value(1), value(0), value(0), value(0)});
    if (p.saved.process.thp_advised) // an older kernel refuses this, and they are off everywhere
        p.plan.program.try_call(
            "leaving huge pages on where they are advised", SYS_prctl,
            {value(PR_SET_THP_DISABLE), value(1), value(except_advised), value(0), value(0)});
}

} // namespace

Result<std::vector<Range>> contents_of(image::Image &image, const image::Region &region)
{
    std::vector<Range> parts;
    const uint64_t pages = (region.end - region.start) / image::kPageSize;
    for (uint64_t at = 0; at < pages;) {
        Result<image::Run> run = image.find(region.object, region.object_page + at);
        if (!run)
            return run.error();
        const uint64_t count = std::min(run->count, pages - at);
        if (count == 0)
            return Error(EINVAL, "the image's index is empty where memory should be");
        // Pages of zeros are sent, too, where they replace a page of a file.
        if (!run->hole && (run->kind != image::ExtentKind::zero || needs_file(region))) {
            const uint64_t start = region.start + at * image::kPageSize;
            parts.push_back({start, start + count * image::kPageSize});
        }
        at += count;
    }
    return parts;
}

Result<std::vector<Range>> filled_parts(Planning &p, const image::Region &region)
{
    Result<std::vector<Range>> parts = contents_of(p.image, region);
    if (!parts)
        return parts;
    *parts = to_be_sent(p, region, *parts);
    for (const auto &[start, end] : *parts)
        p.plan.fills.push_back({region.object,
                                region.object_page + (start - region.start) / image::kPageSize,
                                (end - start) / image::kPageSize});
    return parts;
}

Result<std::vector<Stretch>> stretches_of(image::Image &image, const image::Region &region)
{
    const bool is_shared = (region.flags & image::kRegionShared) != 0;
    const uint32_t open = is_shared && needs_file(region) ? region.prot : region.prot | PROT_WRITE;
    std::vector<Stretch> stretches = {{region.start, region.end, open}};
    if (open == region.prot || is_shared || region.kind == RegionKind::hugetlb)
        return stretches;
    Result<std::vector<Range>> parts = contents_of(image, region);
    if (!parts)
        return parts.error();
    // Stretches mapped differently stay separate in the kernel, so small regions are kept whole.
    constexpr uint64_t worth_it = uint64_t(1) << 26;
    if (!parts->empty() && region.end - region.start < worth_it)
        return stretches;
    stretches.clear();
    uint64_t at = region.start;
    const auto add = [&](uint64_t end, uint32_t prot) {
        if (end > at)
            stretches.push_back({at, end, prot});
        at = end;
    };
    for (const Range &part : *parts) {
        add(part.start, region.prot);
        add(part.end, open);
    }
    add(region.end, region.prot);
    return stretches;
}

void plan_choice_of_pages(Planning &p, const image::Region &region)
{
    advise_size(p.plan.program, region);
    plan_region_policy(p, region);
}

Result<void> plan_memory(Planning &p)
{
    Program &program = p.plan.program;
    const image::Memory &m = p.saved.memory;
    for (const image::Region &region : p.saved.regions())
        program.avoid(region.start, region.end);
    for (const image::AioContext &context : p.saved.of<image::AioContext>())
        program.avoid(context.start, context.end);
    program.avoid(m.start_brk, m.brk + (1ULL << 30)); // the heap grows
    program.avoid(m.vdso_start, m.vdso_start + m.vdso_size);
    program.avoid(m.vvar_start, m.vvar_start + m.vvar_size);

    plan_huge_pages_off(p);
    if (p.kept != nullptr) {
        plan_keeping(p);
        plan_growing(p);
    } else if (p.options.device >= 0) {
        if (Result<void> done = plan_module_memory(p); !done)
            return done;
    } else {
        program.add(Do::unmap_all, "giving up the fresh process's memory", {});
    }
    if (Result<void> done = plan_segments(p); !done)
        return done;
    for (const image::Region &region : p.saved.regions()) {
        if (module_makes(p, region) || is_kept(p, region))
            continue;
        if (is_segment(region)) {
            plan_region_policy(p, region);
            continue;
        }
        if (Result<void> done = map_region(p, region); !done)
            return done;
        plan_choice_of_pages(p, region);
    }
    if (Result<void> done = plan_vdso(p); !done)
        return done;
    if (p.kept != nullptr)
        plan_emptying(p);
    for (const image::Region &region : p.saved.regions()) {
        if (module_makes(p, region) || is_segment(region) || region.kind == RegionKind::shared_file)
            continue; // the file has the contents: open_replacement() puts saved ones back
        const bool lazy = is_lazy(p, region);
        if (Result<void> done = lazy ? plan_lazy_region(p, region) : fill_region(p, region); !done)
            return done;
    }
    note_lazy(p);
    plan_making_copies(p);
    if (Result<void> done = plan_aio(p); !done)
        return done;
    for (const image::Region &region : p.saved.regions())
        finish_region(p, region);
    for (const image::AioContext &context : p.saved.of<image::AioContext>())
        finish_region(p, ring_of(context));
    plan_layout(p);
    if (m.mlockall != 0)
        program.call("locking memory that is mapped from now on", SYS_mlockall,
                     {value(m.mlockall)});
    return {};
}

} // namespace cryo::restore
