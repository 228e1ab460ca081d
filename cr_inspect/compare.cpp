// SPDX-License-Identifier: Apache-2.0
#include "compare.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "cli/text.hpp"

namespace cryo::inspect {

using namespace cryo::cli;

using namespace cryo::image;

namespace {

// Pages of one object, mapped alike in both images.
struct Interval {
    std::string where;
    bool memory = false;
    bool backed = false; // by a file: the contents of a missing page are unknown
    uint32_t object = 0;
    uint64_t first = 0;
    uint64_t end = 0;
};

uint64_t first_page(const Region &r)
{
    return r.start / kPageSize;
}

uint64_t end_page(const Region &r)
{
    return std::max(r.start, r.end) / kPageSize;
}

// Where both images have a mapping of their private memory. What only one has mapped shows in the
// records.
std::vector<Interval> memory_intervals(const Description &a, const Description &b, uint32_t object)
{
    std::vector<Interval> out;
    auto theirs = b.all<Region>();
    std::erase_if(theirs, [&](const Region &r) { return r.object != object; });
    std::ranges::sort(theirs, {}, &Region::start);
    size_t next = 0;
    for (const Region &r : a.all<Region>()) {
        if (r.object != object)
            continue;
        while (next < theirs.size() && end_page(theirs[next]) <= first_page(r))
            next++;
        for (size_t i = next; i < theirs.size() && first_page(theirs[i]) < end_page(r); i++)
            out.push_back(
                {.where = fmt::format("region {:x}-{:x} ({})", r.start, r.end, name_of(r.kind)),
                 .memory = true,
                 .backed = r.file || theirs[i].file,
                 .object = object,
                 .first = std::max(first_page(r), first_page(theirs[i])),
                 .end = std::min(end_page(r), end_page(theirs[i]))});
    }
    return out;
}

// Objects that are arrays of bytes by themselves: missing pages are zero.
std::vector<Interval> object_intervals(const Description &a, const Description &b,
                                       uint32_t address_space)
{
    std::map<uint32_t, uint64_t> ends;
    for (const Description *d : {&a, &b})
        for (const Extent &e : d->extents)
            if (e.object != address_space)
                ends[e.object] = std::max(ends[e.object], e.end());
    std::vector<Interval> out;
    out.reserve(ends.size());
    for (const auto &[object, end] : ends)
        out.push_back({.where = fmt::format("object {}", object), .object = object, .end = end});
    for (Interval &i : out)
        for (const Object &o : a.all<Object>())
            if (o.id == i.object)
                i.where += fmt::format(" ({}{}{})", name_of(o.kind), o.name.empty() ? "" : " ",
                                       printable(o.name));
    return out;
}

class Comparison
{
  public:
    Comparison(Image &a, Image &b) : a_(a), b_(b) {}

    Result<PageDifference> compare(const Interval &in)
    {
        out_ = {.where = in.where, .memory = in.memory};
        for (uint64_t page = in.first; page < in.end;) {
            auto here = a_.find(in.object, page);
            if (!here)
                return here.error();
            auto there = b_.find(in.object, page);
            if (!there)
                return there.error();
            uint64_t count = std::min({here->count, there->count, in.end - page});
            auto ok = compare_run(in, page, count, *here, *there);
            if (!ok)
                return ok.error();
            page += count;
        }
        return std::move(out_);
    }

  private:
    static bool is_zero(const Run &r) { return r.hole || r.kind == ExtentKind::zero; }

    Result<void> compare_run(const Interval &in, uint64_t page, uint64_t count, const Run &here,
                             const Run &there)
    {
        if (here.hole && there.hole)
            return {};
        out_.compared += count;
        if (here.hole != there.hole && in.backed) {
            differ(page, count);
            return {};
        }
        bool same_base = !here.hole && !there.hole && here.kind == ExtentKind::base &&
                         there.kind == ExtentKind::base && here.source == there.source &&
                         a_.header().base_id == b_.header().base_id;
        if (same_base || (is_zero(here) && is_zero(there)))
            return {};
        constexpr uint64_t kChunk = 256;
        for (uint64_t done = 0; done < count; done += kChunk)
            if (auto ok = compare_contents(in, page + done, std::min(kChunk, count - done)); !ok)
                return ok;
        return {};
    }

    Result<void> compare_contents(const Interval &in, uint64_t page, uint64_t count)
    {
        mine_.resize(count * kPageSize);
        theirs_.resize(count * kPageSize);
        if (auto ok = a_.read_pages(in.object, page, mine_); !ok)
            return ok;
        if (auto ok = b_.read_pages(in.object, page, theirs_); !ok)
            return ok;
        for (uint64_t i = 0; i < count; i++)
            if (memcmp(mine_.data() + i * kPageSize, theirs_.data() + i * kPageSize, kPageSize) !=
                0)
                differ(page + i, 1);
        return {};
    }

    void differ(uint64_t page, uint64_t count)
    {
        out_.different += count;
        if (!out_.ranges.empty() && out_.ranges.back().first + out_.ranges.back().count == page)
            out_.ranges.back().count += count;
        else
            out_.ranges.push_back({page, count});
    }

    Image &a_;
    Image &b_;
    PageDifference out_;
    std::vector<uint8_t> mine_;
    std::vector<uint8_t> theirs_;
};

} // namespace

Result<std::vector<PageDifference>> compare_pages(Image &a, const Description &about_a, Image &b,
                                                  const Description &about_b)
{
    uint32_t memory = about_a.one<Memory>().object;
    auto intervals = memory_intervals(about_a, about_b, memory);
    auto objects = object_intervals(about_a, about_b, memory);
    intervals.insert(intervals.end(), objects.begin(), objects.end());
    std::vector<PageDifference> out;
    Comparison comparison(a, b);
    for (const Interval &i : intervals) {
        auto found = comparison.compare(i);
        if (!found)
            return found.error();
        if (found->different)
            out.push_back(std::move(*found));
    }
    return out;
}

} // namespace cryo::inspect
