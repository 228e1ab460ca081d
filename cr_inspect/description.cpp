// SPDX-License-Identifier: Apache-2.0
#include "description.hpp"

#include <algorithm>

#include "cli/text.hpp"
#include "image/stream_reader.hpp"

namespace cryo::inspect {

using namespace cryo::cli;

using namespace cryo::image;

namespace {

void add_record(Description &to, const RecordView &view)
{
    to.records.push_back({view.type, view.version, view.flags, view.offset,
                          std::vector<uint8_t>(view.payload.begin(), view.payload.end())});
}

void add_extent(Description &to, const Extent &extent)
{
    if (!to.extents.empty() && to.extents.back().continues_with(extent))
        to.extents.back().count += extent.count;
    else
        to.extents.push_back(extent);
}

void add(PageCounts &to, ExtentKind kind, uint64_t count)
{
    (kind == ExtentKind::data ? to.data : kind == ExtentKind::zero ? to.zero : to.base) += count;
}

// Parts of ARGS or ENVIRON, put together in their order.
template <class R>
std::vector<std::string> strings_of(const Description &from)
{
    auto parts = from.all<R>();
    std::ranges::stable_sort(parts, {}, &R::part);
    std::string joined;
    for (const R &part : parts)
        joined += as_text(part.data);
    return split_strings(joined);
}

} // namespace

void Description::settle()
{
    std::ranges::stable_sort(extents, [](const Extent &a, const Extent &b) { return a.before(b); });
    for (const Extent &e : extents)
        add(pages_, e.kind, e.count);
}

void Description::follow(Image &image)
{
    if (!image.header().is_delta_of_earlier() || image.header().role != Role::process)
        return;
    const auto chain = image.chain();
    if (!chain) {
        lacks = chain.error();
        return;
    }
    for (auto one = chain->begin() + 1; one != chain->end(); ++one)
        bases.push_back((*one)->name());
}

Result<Description> Description::of(Image &image)
{
    Description out;
    out.name = image.name();
    out.header = image.header();
    out.footer = image.footer();
    out.offset = image.place().offset;
    auto ok = image.records([&](const RecordView &view) -> Result<void> {
        add_record(out, view);
        return {};
    });
    if (!ok)
        return ok.error();
    ok = image.extents([&](const Extent &e) -> Result<void> {
        add_extent(out, e);
        return {};
    });
    if (!ok)
        return ok.error();
    auto statistics = image.statistics();
    if (!statistics)
        return statistics.error();
    out.statistics = *statistics;
    out.follow(image);
    out.settle();
    return out;
}

Result<std::vector<Description>> Description::of_stream(int fd, const std::string &name)
{
    StreamReader reader(fd, name);
    std::vector<Description> out;
    uint64_t offset = 0;
    for (;;) {
        auto item = reader.next();
        if (!item)
            return item.error();
        switch (item->kind) {
        case StreamItem::Kind::image:
            out.emplace_back();
            out.back().name = name;
            out.back().header = reader.header();
            out.back().offset = offset;
            break;
        case StreamItem::Kind::record:
            add_record(out.back(), item->record);
            break;
        case StreamItem::Kind::pages:
        case StreamItem::Kind::extent:
            add_extent(out.back(), item->extent);
            break;
        case StreamItem::Kind::committed:
            out.back().footer = reader.footer();
            offset += reader.footer().length;
            out.back().settle();
            break;
        case StreamItem::Kind::end_of_stream:
            return out;
        }
    }
}

std::vector<std::string> Description::arguments() const
{
    return strings_of<Args>(*this);
}

std::vector<std::string> Description::environment() const
{
    return strings_of<Environ>(*this);
}

PageCounts Description::pages_of(uint32_t object, uint64_t first, uint64_t count) const
{
    PageCounts out;
    uint64_t end = first > UINT64_MAX - count ? UINT64_MAX : first + count;
    auto at = std::ranges::partition_point(extents, [&](const Extent &e) {
        return e.object < object || (e.object == object && e.end() <= first);
    });
    for (; at != extents.end() && at->object == object && at->page < end; ++at)
        add(out, at->kind, std::min(end, at->end()) - std::max(first, at->page));
    return out;
}

PageCounts Description::pages_of(const Region &region) const
{
    return pages_of(region.object, region.object_page, region_pages(region));
}

} // namespace cryo::inspect
