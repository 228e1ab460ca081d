// SPDX-License-Identifier: Apache-2.0
//
// The memory regions of a stopped program, parsed from /proc/PID/smaps.
#pragma once

#include "image/records.hpp"
#include "look/problems.hpp"
#include "look/proc.hpp"
#include "look/runs.hpp"
#include "protocol/agent.hpp"

#include <functional>
#include <string_view>

namespace cryo::capture {

struct Mapping {
    uint64_t start = 0, end = 0;
    uint32_t prot = 0;
    bool shared = false;
    uint64_t offset = 0;
    uint64_t device = 0, inode = 0;
    std::string path;     // as in /proc, without " (deleted)"
    bool deleted = false; // its name is gone
    image::RegionKind kind = image::RegionKind::anonymous;
    uint32_t flags = 0; // image::kRegion… bits
    uint64_t huge_page_size = 0;
    agent::Policy policy = {}; // NUMA

    uint64_t pages() const { return (end - start) / image::kPageSize; }
};

// The file name that /proc shows for MAP_ANONYMOUS | MAP_HUGETLB.
inline constexpr std::string_view huge_anonymous = "/anon_hugepage";

struct AddressSpace {
    std::vector<Mapping> mappings;  // ascending; without vsyscall
    std::vector<Mapping> aio_rings; // not among them: the kernel makes and fills these
    uint64_t vdso_start = 0, vdso_end = 0;
    uint64_t vvar_start = 0, vvar_end = 0;
    uint64_t huge_pages = 0; // 4 KiB pages in transparent huge pages, if reported
};

struct AddressRange {
    uint64_t start, end;
};

// Parses only the first line of each mapping: kind and flags stay unset.
void for_each_mapping(std::string_view smaps, const std::function<void(const Mapping &)> &take);
// The mappings of which no page is in memory or swapped out.
std::vector<Run> untouched_mappings(std::string_view smaps);
// Built from the process's smaps, without what lies in `left_out`. `watched`: mappings that we
// registered with a userfaultfd ourselves.
Result<AddressSpace> address_space_of(const Proc &proc, std::string_view smaps,
                                      const std::vector<AddressRange> &left_out,
                                      const std::vector<Run> &watched, Problems &problems);

} // namespace cryo::capture
