// SPDX-License-Identifier: Apache-2.0
// Huge pages that an administrator has set aside (hugetlb): as many as the program had, or none.
#include "restore/mapped_files.hpp"
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

// Whether there are enough for all of the process's memory of this page size. Each process of a
// tree makes its own later, so what others were promised is not free any more.
bool take_huge_pages(Planning &p, uint64_t size)
{
    uint64_t bytes = 0;
    for (const image::Region &region : p.saved.regions()) {
        if (region.kind == RegionKind::hugetlb && region.huge_page_size == size)
            bytes += region.end - region.start;
    }
    const auto needed = static_cast<int64_t>(bytes / size);
    int64_t &promised = p.mapped->promised_huge_pages(size);
    const int64_t free = std::max<int64_t>(free_huge_pages(size) - promised, 0);
    const bool has = free > 0 && free >= needed;
    p.has_huge_pages[size] = has;
    if (has)
        promised += needed;
    else
        p.plan.notices.push_back(fmt::format(
            "{} MiB of memory consisted of huge pages of {} KiB (hugetlb), of which {} are free "
            "here: it consists of ordinary ones",
            bytes >> 20, size / 1024, free));
    return has;
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
    const auto known = p.has_huge_pages.find(size);
    const bool has = known != p.has_huge_pages.end() ? known->second : take_huge_pages(p, size);
    return has ? MAP_HUGETLB | std::countr_zero(size) << MAP_HUGE_SHIFT : 0;
}

} // namespace cryo::restore
