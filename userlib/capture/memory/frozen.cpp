// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/frozen.hpp"

#include "look/regions.hpp"

#include <algorithm>

namespace cryo::capture {

Result<std::unique_ptr<Frozen>> Served::open(PageSource source)
{
    Result<PageMap> map = PageMap::open(Proc(source.pid()));
    if (!map)
        return map.error();
    return std::unique_ptr<Frozen>(new Served(std::move(source), std::move(*map)));
}

// Programs reserve terabytes that they never touch. On kernels without PAGEMAP_SCAN the page map
// has eight bytes for each of these pages.
bool Served::is_untouched(uint64_t start, uint64_t end) const
{
    if (!untouched_) {
        const Result<std::string> smaps =
            map_.kernel_scans() ? Result<std::string>("") : Proc(pid()).read("smaps");
        untouched_ = smaps ? untouched_mappings(*smaps) : std::vector<Run>();
    }
    return std::ranges::any_of(*untouched_, [&](const Run &mapping) {
        return mapping.start <= start && end <= mapping.end;
    });
}

Result<std::vector<Run>> Served::own_pages(uint64_t start, uint64_t end) const
{
    constexpr uint64_t large = 1 << 30;
    if (end - start >= large && is_untouched(start, end))
        return std::vector<Run>();
    return map_.own_pages(start, end);
}

} // namespace cryo::capture
