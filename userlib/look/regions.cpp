// SPDX-License-Identifier: Apache-2.0
#include "look/regions.hpp"

#include "look/address_range.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace cryo::capture {

namespace {

using image::RegionKind;

bool starts_with(std::string_view text, std::string_view with)
{
    return text.substr(0, with.size()) == with;
}

// The first line of a mapping; the lines about it begin with a capital letter.
bool is_head(std::string_view line)
{
    return !line.empty() &&
           ((line[0] >= '0' && line[0] <= '9') || (line[0] >= 'a' && line[0] <= 'f'));
}

// "7f00-7f01 rw-p 00000000 08:01 1234   /path with blanks"
bool parse_head(std::string_view line, Mapping &m)
{
    const std::optional<Run> range = take_range(line);
    if (!range)
        return false;
    m.start = range->start;
    m.end = range->end;
    const std::string_view perms = take_word(line);
    if (perms.size() != 4)
        return false;
    m.prot = (perms[0] == 'r' ? PROT_READ : 0) | (perms[1] == 'w' ? PROT_WRITE : 0) |
             (perms[2] == 'x' ? PROT_EXEC : 0);
    m.shared = perms[3] == 's';
    m.offset = take_number(line, 16);
    const auto major_number = static_cast<unsigned>(take_number(line, 16));
    line.remove_prefix(1);
    m.device = makedev(major_number, static_cast<unsigned>(take_number(line, 16)));
    m.inode = take_number(line);
    m.path = line;
    constexpr std::string_view gone = " (deleted)";
    if (m.path.size() > gone.size() &&
        m.path.compare(m.path.size() - gone.size(), gone.size(), gone) == 0) {
        m.path.resize(m.path.size() - gone.size());
        m.deleted = true;
    }
    return true;
}

// VmFlags, two letters each: what madvise and mlock have set.
uint32_t parse_flags(std::string_view words, const std::vector<Run> &watched, Problems &problems,
                     const Mapping &m)
{
    uint32_t flags = m.shared ? image::kRegionShared : 0;
    if (m.shared && starts_with(m.path, "/SYSV") && words.find("mw") == std::string_view::npos)
        flags |= image::kRegionReadOnly;
    while (!words.empty()) {
        const std::string_view w = take_word(words);
        if (w == "gd")
            flags |= image::kRegionGrowsDown;
        else if (w == "nr")
            flags |= image::kRegionNoReserve;
        else if (w == "lo")
            flags |= image::kRegionLocked;
        else if (w == "lf")
            flags |= image::kRegionLockOnFault;
        else if (w == "dc")
            flags |= image::kRegionDontFork;
        else if (w == "wf")
            flags |= image::kRegionWipeOnFork;
        else if (w == "dd")
            flags |= image::kRegionDontDump;
        else if (w == "hg")
            flags |= image::kRegionHugePages;
        else if (w == "nh")
            flags |= image::kRegionNoHugePages;
        else if (w == "sr")
            flags |= image::kRegionSequential;
        else if (w == "rr")
            flags |= image::kRegionRandom;
        else if (w == "mg")
            flags |= image::kRegionMergeable;
        else if (w == "dp")
            flags |= image::kRegionDroppable;
        else if (w == "sl")
            flags |= image::kRegionSealed;
        else if (w == "ss")
            problems.add(fmt::format("memory at {:x}: a shadow stack", m.start),
                         "start the program with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off");
        else if (w == "um" || w == "ui" ||
                 (w == "uw" && !without({{m.start, m.end}}, watched).empty()))
            problems.add(fmt::format("memory at {:x}: registered with userfaultfd", m.start),
                         "the program must unregister it first");
    }
    return flags;
}

// Pages of hugetlb. All such memory belongs to a file, which is visible only if it is shared.
void classify_huge(Mapping &m, uint64_t page_size, Problems &problems)
{
    m.huge_page_size = page_size;
    if (!m.shared) {
        m.kind = RegionKind::hugetlb;
    } else if (starts_with(m.path, "/SYSV")) {
        m.kind = RegionKind::hugetlb;
        problems.add(
            fmt::format("memory at {:x}: a System V segment of {} KiB huge pages (hugetlb)",
                        m.start, page_size / 1024),
            "use shared memory by mmap or memfd_create instead, or ordinary pages");
    } else if (m.deleted && m.path == huge_anonymous) {
        m.kind = RegionKind::memfd;
        m.path = "/memfd:shared memory";
    } else {
        m.kind = starts_with(m.path, "/memfd:") ? RegionKind::memfd : RegionKind::shared_file;
    }
}

void classify(Mapping &m, uint64_t page_size, bool device, Problems &problems)
{
    if (page_size > image::kPageSize) {
        classify_huge(m, page_size, problems);
    } else if (m.path == "[heap]") {
        m.kind = RegionKind::heap;
    } else if (m.path == "[stack]") {
        m.kind = RegionKind::stack;
    } else if (m.path.empty() || starts_with(m.path, "[anon:")) {
        m.kind = RegionKind::anonymous;
    } else if (m.path == "/dev/zero" && !m.deleted) {
        m.kind = RegionKind::anonymous;
    } else if (m.shared && m.path == "/dev/zero") {
        m.kind = RegionKind::shared_anonymous;
    } else if (starts_with(m.path, "[anon_shmem:")) {
        m.kind = RegionKind::shared_anonymous;
    } else if (m.shared && starts_with(m.path, "/memfd:")) {
        m.kind = RegionKind::memfd;
    } else if (m.shared && starts_with(m.path, "/SYSV")) {
        m.kind = RegionKind::sysv_shm;
    } else if (m.deleted && m.path == "/secretmem") {
        m.kind = RegionKind::device;
        problems.add(fmt::format("memory at {:x}: secret memory (memfd_secret), which the kernel "
                                 "reads for nobody",
                                 m.start),
                     "the program must unmap it first");
    } else if (m.path.front() != '/') {
        m.kind = RegionKind::device;
        problems.add(fmt::format("memory at {:x}: a mapping of {}", m.start, m.path),
                     "the program must close it first");
    } else if (device) {
        m.kind = RegionKind::device;
        problems.add(fmt::format("memory at {:x}: device memory of {}", m.start, m.path),
                     "the program must unmap it first");
    } else {
        m.kind = m.shared ? RegionKind::shared_file : RegionKind::private_file;
    }
}

// The parts of a mapping outside all ranges. Adjacent mappings may have been merged, so a range can
// begin and end anywhere in it.
std::vector<Mapping> outside(const Mapping &whole, const std::vector<AddressRange> &left_out)
{
    std::vector<Mapping> parts = {whole};
    for (const AddressRange &range : left_out) {
        std::vector<Mapping> rest;
        for (const Mapping &part : parts) {
            Mapping below = part;
            Mapping above = part;
            below.end = std::clamp(range.start, part.start, part.end);
            above.start = std::clamp(range.end, part.start, part.end);
            above.offset += above.start - part.start;
            if (range.start >= part.end || range.end <= part.start) {
                rest.push_back(part);
                continue;
            }
            if (below.start < below.end)
                rest.push_back(below);
            if (above.start < above.end)
                rest.push_back(above);
        }
        parts = std::move(rest);
    }
    return parts;
}

} // namespace

void for_each_mapping(std::string_view smaps, const std::function<void(const Mapping &)> &take)
{
    while (!smaps.empty()) {
        const std::string_view line = take_line(smaps);
        Mapping m;
        if (is_head(line) && parse_head(line, m))
            take(m);
    }
}

std::vector<Run> untouched_mappings(std::string_view smaps)
{
    std::vector<Run> found;
    while (!smaps.empty()) {
        std::string_view line = take_line(smaps);
        Mapping m;
        if (is_head(line)) {
            if (parse_head(line, m))
                found.push_back({m.start, m.end});
            continue;
        }
        const std::string_view key = line.substr(0, line.find(':'));
        line.remove_prefix(std::min(line.find_first_of("0123456789"), line.size()));
        const bool counts_pages =
            key == "Rss" || key == "Swap" || key == "Private_Hugetlb" || key == "Shared_Hugetlb";
        if (counts_pages && take_number(line) != 0 && !found.empty())
            found.back().end = found.back().start;
    }
    // A mapping that has pages was made an empty range above.
    std::erase_if(found, [](const Run &mapping) { return mapping.start == mapping.end; });
    return found;
}

Result<AddressSpace> address_space_of(const Proc &proc, std::string_view smaps,
                                      const std::vector<AddressRange> &left_out,
                                      const std::vector<Run> &watched, Problems &problems)
{
    AddressSpace space;
    std::string_view rest = smaps;
    Mapping m;
    bool open = false;
    uint64_t page_size = image::kPageSize;
    while (!rest.empty()) {
        std::string_view line = take_line(rest);
        if (is_head(line)) {
            m = Mapping();
            open = parse_head(line, m);
            if (!open)
                return Error(EPROTO, proc.path("smaps") +
                                         ": a line that is not understood: " + std::string(line));
            continue;
        }
        const std::string_view key = line.substr(0, line.find(':'));
        line.remove_prefix(std::min(key.size() + 1, line.size()));
        line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
        if (key == "AnonHugePages") {
            space.huge_pages += take_number(line) * 1024 / image::kPageSize;
        } else if (key == "KernelPageSize") {
            page_size = take_number(line) * 1024;
        } else if (key == "ProtectionKey") {
            if (take_number(line) != 0)
                problems.add(fmt::format("memory at {:x}: a protection key", m.start),
                             "free its key before the checkpoint");
        } else if (key == "VmFlags") {
            const bool device = line.find("io") != std::string_view::npos ||
                                line.find("pf") != std::string_view::npos;
            if (m.path == "[vsyscall]") {
                continue;
            }
            if (starts_with(m.path, "[vvar")) {
                space.vvar_start = space.vvar_start == 0 ? m.start : space.vvar_start;
                space.vvar_end = m.end;
                continue;
            }
            if (m.path == "[vdso]") {
                space.vdso_start = m.start;
                space.vdso_end = m.end;
                continue;
            }
            for (Mapping &part : outside(m, left_out)) {
                part.flags = parse_flags(line, watched, problems, part);
                if (part.path == "/[aio]") {
                    space.aio_rings.push_back(part);
                    continue;
                }
                classify(part, page_size, device, problems);
                space.mappings.push_back(part);
            }
        }
    }
    if (space.mappings.empty())
        return Error(ESRCH, proc.path("smaps") + ": the process has no memory");
    return space;
}

} // namespace cryo::capture
