// SPDX-License-Identifier: Apache-2.0
#include "html/memory_map.hpp"

#include <algorithm>
#include <sys/mman.h>

#include "html/pieces.hpp"

namespace cryo::inspect {

using namespace cryo::cli;

using namespace cryo::image;

namespace {

constexpr size_t kMostStrips = 10;
constexpr uint64_t kGap = uint64_t(64) << 20; // within a strip

// Of the picture, in units of its own.
constexpr unsigned kWidth = 1000;
constexpr unsigned kHeight = 46;
constexpr unsigned kUseHeight = 22;
constexpr unsigned kStoredTop = 25;

struct UseName {
    const char *style;
    const char *text;
};
constexpr std::array<UseName, kUses> kUseNames = {{{"code", "programs and libraries"},
                                                   {"file", "other mapped files"},
                                                   {"heap", "heap"},
                                                   {"stack", "stack"},
                                                   {"anonymous", "anonymous"},
                                                   {"shared", "shared memory"},
                                                   {"reserved", "reserved, without access"},
                                                   {"other", "other"}}};

const UseName &shown(Use use)
{
    return kUseNames.at(size_t(use));
}

// By address, without those that a forged image has and no process can have.
std::vector<const MappingRow *> sorted(std::span<const MappingRow> rows)
{
    std::vector<const MappingRow *> out;
    for (const MappingRow &row : rows)
        if (region_pages(row.region))
            out.push_back(&row);
    std::ranges::stable_sort(out, {}, [](const MappingRow *row) { return row->region.start; });
    return out;
}

// The first mapping of each strip: those after the largest gaps.
std::vector<size_t> beginnings(const std::vector<const MappingRow *> &rows)
{
    struct Gap {
        uint64_t size;
        size_t before;
    };
    std::vector<Gap> gaps;
    uint64_t end = 0;
    for (size_t i = 0; i < rows.size(); i++) {
        const Region &r = rows[i]->region;
        if (i > 0 && r.start > end && r.start - end > kGap)
            gaps.push_back({r.start - end, i});
        end = std::max(end, r.end);
    }
    std::ranges::stable_sort(gaps, std::greater(), &Gap::size);
    gaps.resize(std::min(gaps.size(), kMostStrips - 1));
    std::vector<size_t> out{0};
    for (const Gap &g : gaps)
        out.push_back(g.before);
    std::ranges::sort(out);
    return out;
}

class Strip
{
  public:
    Strip(const Description &about, std::span<const MappingRow *const> rows, size_t most_columns)
        : about_(about)
    {
        out_.start = rows.front()->region.start / kPageSize * kPageSize;
        for (const MappingRow *row : rows)
            out_.end = std::max(out_.end, row->region.end);
        const uint64_t pages = (out_.end - out_.start - 1) / kPageSize + 1;
        const uint64_t pages_each = (pages - 1) / most_columns + 1;
        out_.width = pages_each * kPageSize;
        out_.columns.resize((pages - 1) / pages_each + 1);
        for (const MappingRow *row : rows)
            add(*row);
    }
    MapStrip take() { return std::move(out_); }

  private:
    void add(const MappingRow &row)
    {
        const Region &r = row.region;
        out_.sum.add(row);
        const uint64_t last = (r.end - 1 - out_.start) / out_.width;
        for (uint64_t i = (r.start - out_.start) / out_.width; i <= last; i++) {
            const uint64_t column = out_.start + i * out_.width;
            const uint64_t from = std::max(r.start, column);
            const uint64_t left = out_.end - column; // a column may end beyond all addresses
            const uint64_t to = std::min(r.end, column + std::min(left, out_.width));
            add(out_.columns[i], row, from, to);
        }
    }

    void add(MapColumn &to, const MappingRow &row, uint64_t start, uint64_t end) const
    {
        const Region &r = row.region;
        const uint64_t pages = (end - start + kPageSize - 1) / kPageSize;
        to.mappings++;
        to.bytes.at(size_t(use_of(r))) += end - start;
        to.pages += pages;
        to.stored +=
            about_.pages_of(r.object, r.object_page + (start - r.start) / kPageSize, pages);
        if (end - start > to.largest_bytes) {
            to.largest = &row;
            to.largest_bytes = end - start;
        }
    }

    const Description &about_;
    MapStrip out_;
};

// Where a column begins in the picture.
std::string x_of(const MapStrip &strip, size_t column)
{
    return fmt::format("{:.5g}", double(column) * kWidth / double(strip.columns.size()));
}

std::string title_of(const MapStrip &strip, size_t first, size_t end)
{
    const MapColumn &column = strip.columns[first];
    const MappingRow &row = *column.largest;
    uint64_t most = 0;
    for (size_t i = first; i < end; i++)
        most = std::max(most, strip.columns[i].mappings);
    std::string out =
        fmt::format("{:x}-{:x} {} {}", row.region.start, row.region.end,
                    protection_text(row.region), pages_text(region_pages(row.region)));
    if (!row.what.empty())
        out += ", " + row.what;
    if (most > 1)
        out += fmt::format(", and {} more here", number_text(most - 1));
    return out;
}

void draw_uses(Html &page, const MapStrip &strip)
{
    const auto &columns = strip.columns;
    for (size_t first = 0; first < columns.size();) {
        size_t end = first + 1;
        if (columns[first].empty()) {
            first = end;
            continue;
        }
        while (end < columns.size() && !columns[end].empty() &&
               columns[end].largest == columns[first].largest &&
               columns[end].use() == columns[first].use())
            end++;
        auto rect = page.in("rect", {{"class", shown(columns[first].use()).style},
                                     {"x", x_of(strip, first)},
                                     {"width", fmt::format("{:.5g}", double(end - first) * kWidth /
                                                                         double(columns.size()))},
                                     {"height", fmt::format("{}", kUseHeight)}});
        page.leaf("title", title_of(strip, first, end));
        first = end;
    }
}

// The outline of how much of each column is there.
template <class Count>
std::string outline(const MapStrip &strip, const Count &count)
{
    std::string out;
    double before = 0;
    for (size_t i = 0; i < strip.columns.size(); i++) {
        const MapColumn &c = strip.columns[i];
        double share = c.pages ? std::min(1.0, double(count(c.stored)) / double(c.pages)) : 0;
        if (share > 0 && share < 0.1)
            share = 0.1; // a single page is seen
        if (share == before)
            continue;
        out += fmt::format("{}{} V{:.4g}", out.empty() ? fmt::format("M0 {}H", kHeight) : "H",
                           x_of(strip, i), kHeight - share * (kHeight - kStoredTop));
        before = share;
    }
    return out.empty() ? out : out + fmt::format("H{}V{}Z", kWidth, kHeight);
}

void draw_outline(Html &page, const char *style, const std::string &path)
{
    if (!path.empty())
        page.single("path", {{"class", style}, {"d", path}});
}

} // namespace

Use use_of(const Region &region)
{
    if (!(region.prot & (PROT_READ | PROT_WRITE | PROT_EXEC)))
        return Use::reserved;
    switch (region.kind) {
    case RegionKind::private_file:
    case RegionKind::shared_file:
        return region.prot & PROT_EXEC ? Use::code : Use::file;
    case RegionKind::heap:
        return Use::heap;
    case RegionKind::stack:
        return Use::stack;
    case RegionKind::anonymous:
    case RegionKind::hugetlb:
        return Use::anonymous;
    case RegionKind::shared_anonymous:
    case RegionKind::memfd:
    case RegionKind::sysv_shm:
        return Use::shared;
    default:
        return Use::other;
    }
}

Use MapColumn::use() const
{
    return static_cast<Use>(std::ranges::max_element(bytes) - bytes.begin());
}

std::vector<MapStrip> lay_out(const Description &about, std::span<const MappingRow> rows,
                              size_t most_columns)
{
    const auto all = sorted(rows);
    std::vector<MapStrip> out;
    if (all.empty())
        return out;
    const std::vector<size_t> first = beginnings(all);
    for (size_t i = 0; i < first.size(); i++) {
        const size_t end = i + 1 < first.size() ? first[i + 1] : all.size();
        out.push_back(
            Strip(about, std::span(all).subspan(first[i], end - first[i]), most_columns).take());
    }
    return out;
}

void draw(Html &page, const MapStrip &strip)
{
    auto figure = page.in("figure", {{"class", "strip"}});
    {
        auto caption = page.in("figcaption");
        page.leaf("code", fmt::format("{:012x} – {:012x}", strip.start, strip.end));
        page.leaf("span", fmt::format("{} in {}", pages_text(strip.sum.size),
                                      amount_text(strip.sum.mappings, "mapping", "mappings")));
        page.leaf("span", "in the image: " + stored_text(strip.sum.stored));
    }
    auto svg = page.in("svg", {{"viewBox", fmt::format("0 0 {} {}", kWidth, kHeight)},
                               {"preserveAspectRatio", "none"},
                               {"role", "img"},
                               {"aria-label", fmt::format("{} of addresses, {} mapped",
                                                          size_text(strip.end - strip.start),
                                                          pages_text(strip.sum.size))}});
    page.single("rect", {{"class", "nothing"},
                         {"width", fmt::format("{}", kWidth)},
                         {"height", fmt::format("{}", kHeight)}});
    draw_uses(page, strip);
    draw_outline(page, "zero", outline(strip, [](const PageCounts &p) { return p.all(); }));
    draw_outline(page, "base", outline(strip, [](const PageCounts &p) { return p.data + p.base; }));
    draw_outline(page, "data", outline(strip, [](const PageCounts &p) { return p.data; }));
}

void draw_legend(Html &page)
{
    const auto add = [&](const char *style, std::string_view text) {
        auto item = page.in("li");
        draw_swatch(page, style);
        page.text(text);
    };
    auto legend = page.in("ul", {{"class", "legend"}});
    for (const UseName &use : kUseNames)
        add(use.style, use.text);
    add("data", "below: pages in the image");
    add("base", "in a base image");
    add("zero", "zeros, which take no space");
}

} // namespace cryo::inspect
