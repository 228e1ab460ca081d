// SPDX-License-Identifier: Apache-2.0
#include "html/pieces.hpp"

#include <algorithm>

namespace cryo::inspect {

PageLimits PageLimits::of(size_t count, bool all)
{
    constexpr size_t kProcesses = 24;
    const size_t shown = std::clamp(count, size_t(1), kProcesses);
    const auto part = [&](size_t of_page, size_t least, size_t most) {
        return std::clamp(of_page / shown, least, most);
    };
    PageLimits out = {.processes = kProcesses,
                      .mappings = part(1200, 60, 400),
                      .descriptors = part(1200, 60, 400),
                      .threads = part(1200, 60, 400),
                      .groups = part(200, 12, 50),
                      .rows = 500,
                      .columns = part(3000, 120, 500),
                      .text = 400};
    if (all)
        for (size_t *limit : {&out.processes, &out.mappings, &out.descriptors, &out.threads,
                              &out.groups, &out.rows, &out.text})
            *limit = SIZE_MAX;
    return out;
}

std::string number_text(uint64_t number)
{
    std::string out = fmt::format("{}", number);
    for (size_t at = out.size(); at > 3; at -= 3)
        out.insert(at - 3, 1, ',');
    return out;
}

std::string amount_text(uint64_t count, std::string_view one, std::string_view many)
{
    return fmt::format("{} {}", number_text(count), count == 1 ? one : many);
}

void say_left_out(Html &page, std::string_view text)
{
    page.leaf("p", text, {{"class", "left-out"}});
}

void draw_swatch(Html &page, const char *style)
{
    auto swatch =
        page.in("svg", {{"class", "swatch"}, {"viewBox", "0 0 10 10"}, {"aria-hidden", "true"}});
    page.single("rect", {{"class", style}, {"width", "10"}, {"height", "10"}});
}

void add_definition(Html &page, std::string_view term, std::string_view text)
{
    auto both = page.in("div");
    page.leaf("dt", term);
    page.leaf("dd", text);
}

HtmlCell HtmlCell::bar(std::string shown, double share)
{
    HtmlCell out(std::move(shown));
    out.share = std::clamp(share, 0.0, 1.0);
    return out;
}

// A list that is longer than its frame is scrolled, by the keyboard, too.
HtmlTable::HtmlTable(Html &page, std::string_view label, std::vector<HtmlColumn> columns)
    : page_(page), columns_(std::move(columns)),
      frame_(page.in("div", {{"class", "scroll"},
                             {"tabindex", "0"},
                             {"role", "region"},
                             {"aria-label", std::string(label)}})),
      table_(page.in("table"))
{
    head();
}

void HtmlTable::head()
{
    auto head = page_.in("thead");
    auto row = page_.in("tr");
    for (const HtmlColumn &c : columns_)
        page_.leaf(
            "th", c.name,
            {{"scope", "col"}, {"class", c.align == cli::Align::right ? "number" : "words"}});
}

void HtmlTable::add(const std::vector<HtmlCell> &cells, HtmlAttributes attributes)
{
    auto row = page_.in("tr", attributes);
    for (size_t i = 0; i < cells.size(); i++) {
        const HtmlCell &cell = cells[i];
        auto place = page_.in(
            "td", {{"class", columns_[i].align == cli::Align::right ? "number" : "words"}});
        if (cell.link.empty())
            page_.text(cell.text);
        else
            page_.leaf("a", cell.text, {{"href", "#" + cell.link}});
        if (cell.share >= 0) {
            auto bar = page_.in("svg", {{"class", "bar"},
                                        {"viewBox", "0 0 100 4"},
                                        {"preserveAspectRatio", "none"},
                                        {"aria-hidden", "true"}});
            page_.single("rect", {{"class", "trough"}, {"width", "100"}, {"height", "4"}});
            page_.single("rect", {{"class", "level"},
                                  {"width", fmt::format("{:.1f}", cell.share * 100)},
                                  {"height", "4"}});
        }
    }
}

} // namespace cryo::inspect
