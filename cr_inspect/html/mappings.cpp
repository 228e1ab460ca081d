// SPDX-License-Identifier: Apache-2.0
#include "html/mappings.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "facts.hpp"
#include "html/memory_map.hpp"

namespace cryo::inspect {

using namespace cryo::cli;

using namespace cryo::image;

namespace {

// Which rows are listed: those with most pages in the image, then the largest.
std::vector<bool> choose_rows(const std::vector<MappingRow> &rows, size_t most)
{
    std::vector<bool> out(rows.size(), rows.size() <= most);
    if (rows.size() <= most)
        return out;
    std::vector<size_t> order(rows.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::ranges::stable_sort(order, std::greater(), [&](size_t i) {
        return std::pair(rows[i].stored.all(), region_pages(rows[i].region));
    });
    for (size_t i = 0; i < most; i++)
        out[order[i]] = true;
    return out;
}

void show_kinds(Html &page, const Description &about)
{
    auto kinds = memory_by_kind(about);
    HtmlTable table(page, "Memory by kind",
                    {{"memory"},
                     {"mappings", Align::right},
                     {"size", Align::right},
                     {"present", Align::right},
                     {"in the image", Align::right},
                     {"zeros", Align::right},
                     {"in its base", Align::right}});
    const auto cells = [](std::string name, const MappingSum &s) {
        return std::vector<HtmlCell>{std::move(name),           number_text(s.mappings),
                                     pages_text(s.size),        pages_text(s.present),
                                     pages_text(s.stored.data), pages_text(s.stored.zero),
                                     pages_text(s.stored.base)};
    };
    MappingSum total;
    for (const auto &[kind, sum] : kinds)
        total += sum;
    for (const auto &[kind, sum] : kinds) {
        auto row = cells(name_of(kind), sum);
        const double all = double(std::max(total.stored.data, uint64_t(1)));
        row[4] = HtmlCell::bar(row[4].text, double(sum.stored.data) / all);
        table.add(row);
    }
    table.add_total(cells("total", total));
}

void show_rows(Html &page, const std::vector<MappingRow> &rows, const std::vector<bool> &listed)
{
    HtmlTable table(page, "Mappings",
                    {{"address"},
                     {"access"},
                     {"offset", Align::right},
                     {"size", Align::right},
                     {"present", Align::right},
                     {"in the image", Align::right},
                     {"what"}});
    for (size_t i = 0; i < rows.size(); i++) {
        const Region &r = rows[i].region;
        if (listed[i])
            table.add({fmt::format("{:012x}-{:012x}", r.start, r.end), protection_text(r),
                       fmt::format("{:x}", r.file_offset), pages_text(region_pages(r)),
                       pages_text(r.present), stored_text(rows[i].stored), rows[i].what});
    }
}

void show_groups(Html &page, const PageLimits &limits, const std::vector<MappingRow> &rows,
                 const std::vector<bool> &listed)
{
    std::map<std::string, MappingSum> by_name;
    for (size_t i = 0; i < rows.size(); i++)
        if (!listed[i])
            by_name[rows[i].what.empty() ? name_of(rows[i].region.kind) : rows[i].what].add(
                rows[i]);
    std::vector<std::pair<std::string, MappingSum>> groups(by_name.begin(), by_name.end());
    std::ranges::stable_sort(groups, std::greater(), [](const auto &g) {
        return std::pair(g.second.mappings, g.second.size);
    });
    HtmlTable table(page, "Other mappings by what they map",
                    {{"what"},
                     {"mappings", Align::right},
                     {"size", Align::right},
                     {"present", Align::right},
                     {"in the image", Align::right}});
    const auto cells = [](const std::string &name, const MappingSum &s) {
        return std::vector<HtmlCell>{name, number_text(s.mappings), pages_text(s.size),
                                     pages_text(s.present), stored_text(s.stored)};
    };
    const size_t shown = std::min(groups.size(), limits.groups);
    MappingSum rest;
    for (size_t i = 0; i < groups.size(); i++) {
        if (i < shown)
            table.add(cells(groups[i].first, groups[i].second));
        else
            rest += groups[i].second;
    }
    if (shown < groups.size())
        table.add_total(
            cells(fmt::format("{} other names", number_text(groups.size() - shown)), rest));
}

} // namespace

void show_memory(Html &page, const PageLimits &limits, const Description &about)
{
    const auto rows = mapping_rows(about);
    page.leaf("h3", "Memory");
    if (rows.empty()) {
        page.leaf("p", "The image has no mappings.");
        return;
    }
    for (const MapStrip &strip : lay_out(about, rows, limits.columns))
        draw(page, strip);
    draw_legend(page);
    show_kinds(page, about);
    page.leaf("h3", amount_text(rows.size(), "mapping", "mappings"));
    const auto listed = choose_rows(rows, limits.mappings);
    if (rows.size() > limits.mappings)
        say_left_out(page,
                     fmt::format("The {} with most pages in the image are listed, by address; "
                                 "the other {} are summed up below. --all lists every one.",
                                 number_text(limits.mappings),
                                 number_text(rows.size() - limits.mappings)));
    show_rows(page, rows, listed);
    if (rows.size() > limits.mappings)
        show_groups(page, limits, rows, listed);
}

} // namespace cryo::inspect
