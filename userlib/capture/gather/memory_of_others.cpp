// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/memory_of_others.hpp"

#include "look/proc.hpp"
#include "look/regions.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <string>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

namespace cryo::capture {

namespace {

struct Place {
    Description *of;
    uint64_t start;
    bool is_written; // by this rank
};

using Places = std::map<SharedContents::Key, Place>; // the first one of each memory

bool is_rank(const Description &d)
{
    return !d.left_out.empty(); // the MPI library
}

// Anonymous memory is left out: it reaches children alone, which are in the image.
bool is_nameless(Description &d, const Mapping &m)
{
    if (!m.shared || m.kind != image::RegionKind::shared_file)
        return m.shared && m.kind == image::RegionKind::memfd;
    const uint32_t file = d.files.mapped(m.path, m.device, m.inode);
    return (d.files.files()[file - 1].flags & image::kFileUnlinked) != 0;
}

bool may_write(const Mapping &m)
{
    return (m.prot & PROT_WRITE) != 0;
}

bool is_within(const Mapping &m, const std::vector<AddressRange> &ranges)
{
    return std::ranges::any_of(ranges, [&m](const AddressRange &range) {
        return m.start >= range.start && m.end <= range.end;
    });
}

// What the MPI library has mapped itself is a window's, and a new window takes its place.
void leave_out_windows(const Description &d, Places &places)
{
    const Result<std::string> maps = d.proc.read("maps");
    if (!maps)
        return;
    for_each_mapping(*maps, [&](const Mapping &m) {
        if (is_within(m, d.left_out))
            places.erase(SharedContents::key_of(m));
    });
}

void refuse_those_of(pid_t other, Places &places)
{
    const Result<std::string> maps = Proc(other).read("maps");
    if (!maps)
        return; // it has ended, or is another user's
    for_each_mapping(*maps, [&](const Mapping &m) {
        const auto found = m.shared ? places.find(SharedContents::key_of(m)) : places.end();
        if (found == places.end())
            return;
        const Place &place = found->second;
        if (!place.is_written && !may_write(m))
            return; // a table of the system's, such as nscd's: a copy is as good
        place.of->problems.add(
            fmt::format("memory at {:x}: shared memory without a name that process {}, outside the "
                        "image, has mapped, too",
                        place.start, other),
            "share it by MPI_Win_allocate_shared, or let it keep a name in /dev/shm");
        places.erase(found);
    });
}

} // namespace

void refuse_memory_of_others(const Members &members, const std::set<pid_t> &known)
{
    Places places;
    for (const auto &member : members) {
        Description &d = member->description();
        if (!is_rank(d))
            continue;
        for (const Mapping &m : d.space.mappings) {
            if (!is_nameless(d, m))
                continue;
            const auto found =
                places.try_emplace(SharedContents::key_of(m), Place{&d, m.start, false}).first;
            found->second.is_written = found->second.is_written || may_write(m);
        }
    }
    for (const auto &member : members) {
        if (!places.empty() && is_rank(member->description()))
            leave_out_windows(member->description(), places);
    }
    if (places.empty())
        return;
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator("/proc", error)) {
        const std::string name = entry.path().filename();
        pid_t pid = 0;
        std::from_chars(name.data(), name.data() + name.size(), pid);
        if (pid != 0 && pid != getpid() && !known.contains(pid))
            refuse_those_of(pid, places);
    }
}

} // namespace cryo::capture
