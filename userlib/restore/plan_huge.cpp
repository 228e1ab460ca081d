// SPDX-License-Identifier: Apache-2.0
// Huge pages that an administrator has set aside (hugetlb): as many as the program had, or none.
#include "restore/plan_parts.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <fstream>
#include <sys/mman.h>

namespace cryo::restore {

namespace {

using image::RegionKind;

int64_t number_in(const std::string &path)
{
    std::ifstream file(path);
    int64_t number = 0;
    return file >> number ? number : 0;
}

} // namespace

int64_t free_huge_pages(uint64_t page_size)
{
    const auto of = [&](const char *what) {
        return number_in(
            fmt::format("/sys/kernel/mm/hugepages/hugepages-{}kB/{}", page_size / 1024, what));
    };
    return of("free_hugepages") - of("resv_hugepages") + of("nr_overcommit_hugepages") -
           of("surplus_hugepages");
}

int huge_page_flags(Planning &p, const image::Region &region)
{
    const uint64_t size = region.huge_page_size;
    if (region.kind != RegionKind::hugetlb || !std::has_single_bit(size))
        return 0;
    uint64_t bytes = 0;
    uint64_t first = region.start;
    for (const image::Region &other : p.saved.regions) {
        if (other.kind == RegionKind::hugetlb && other.huge_page_size == size) {
            bytes += other.end - other.start;
            first = std::min(first, other.start);
        }
    }
    const int64_t free = free_huge_pages(size);
    if (free > 0 && static_cast<uint64_t>(free) >= bytes / size)
        return MAP_HUGETLB | std::countr_zero(size) << MAP_HUGE_SHIFT;
    if (region.start == first) // once
        p.plan.notices.push_back(fmt::format(
            "{} MiB of memory consisted of huge pages of {} KiB (hugetlb), of which {} are free "
            "here: it consists of ordinary ones",
            bytes >> 20, size / 1024, std::max<int64_t>(free, 0)));
    return 0;
}

} // namespace cryo::restore
