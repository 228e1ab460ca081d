// SPDX-License-Identifier: Apache-2.0
#include "look/runs.hpp"

#include "image/format.hpp"

#include <algorithm>
#include <iterator>
#include <memory>

namespace cryo::capture {

std::vector<Run> without(const std::vector<Run> &a, const std::vector<Run> &b)
{
    std::vector<Run> left;
    auto other = b.begin();
    for (Run run : a) {
        while (other != b.end() && other->end <= run.start)
            ++other;
        for (auto in = other; in != b.end() && in->start < run.end; ++in) {
            if (in->start > run.start)
                left.push_back({run.start, in->start});
            run.start = std::max(run.start, in->end);
        }
        if (run.start < run.end)
            left.push_back(run);
    }
    return left;
}

std::vector<Run> common_part(const std::vector<Run> &a, const std::vector<Run> &b)
{
    return without(a, without(a, b));
}

namespace {

std::vector<Run> joined(const std::vector<Run> &ascending)
{
    std::vector<Run> joined;
    for (const Run &run : ascending) {
        if (!joined.empty() && run.start <= joined.back().end)
            joined.back().end = std::max(joined.back().end, run.end);
        else
            joined.push_back(run);
    }
    return joined;
}

} // namespace

std::vector<Run> united(const std::vector<Run> &a, const std::vector<Run> &b)
{
    std::vector<Run> all;
    all.reserve(a.size() + b.size());
    std::ranges::merge(a, b, std::back_inserter(all), {}, &Run::start, &Run::start);
    return joined(all);
}

std::vector<Run> in_order(std::vector<Run> runs)
{
    std::ranges::sort(runs, {}, &Run::start);
    return joined(runs);
}

std::vector<Run> inside(const std::vector<Run> &runs, uint64_t start, uint64_t end)
{
    const auto first = std::ranges::lower_bound(runs, start, {}, &Run::start);
    const auto behind = std::ranges::lower_bound(runs, end, {}, &Run::start);
    return {first, behind};
}

std::vector<Run> part_of(const std::vector<Run> &runs, const Run &part)
{
    auto at = std::ranges::upper_bound(runs, part.start, {}, &Run::end);
    std::vector<Run> found;
    for (; at != runs.end() && at->start < part.end; ++at)
        found.push_back({std::max(at->start, part.start), std::min(at->end, part.end)});
    return found;
}

uint64_t size_of(const std::vector<Run> &runs)
{
    uint64_t sum = 0;
    for (const Run &run : runs)
        sum += run.end - run.start;
    return sum;
}

// Freed memory stays with the allocator and is reused next (mallopt in cr_checkpoint).
void have_memory_for_lists(size_t length)
{
    constexpr size_t lists = 24; // lists alive at a time, and their outgrown buffers
    constexpr size_t piece = 1 << 20;
    constexpr size_t few = 16384; // bytes, not worth it
    constexpr size_t page = image::kPageSize;
    const size_t bytes = length * sizeof(Run) * lists;
    std::vector<std::unique_ptr<char[]>> memory;
    for (size_t had = 0; bytes > few && had < bytes; had += piece) {
        memory.emplace_back(new char[piece]);
        for (size_t at = 0; at < piece; at += page)
            static_cast<volatile char *>(memory.back().get())[at] = 1;
    }
}

} // namespace cryo::capture
