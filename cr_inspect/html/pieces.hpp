// SPDX-License-Identifier: Apache-2.0
//
// What the parts of a page have in common: how much they show, numbers, tables.
//
//     HtmlTable table(page, "Threads", {{"tid", Align::right}, {"name"}});
//     table.add({number_text(t.tid), t.name});
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/text.hpp"
#include "html/writer.hpp"

namespace cryo::inspect {

// A page is for people: an image of 60,000 mappings is summed up, not listed. --all lifts the
// limits of lists and texts.
struct PageLimits {
    size_t processes; // in sections of their own
    size_t mappings;  // rows, of each of them
    size_t descriptors;
    size_t threads;
    size_t groups;  // sums of what is not listed
    size_t rows;    // of all other lists
    size_t columns; // of a memory map
    size_t text;    // bytes of a name

    // For a page with so many processes.
    static PageLimits of(size_t count, bool all);
};

std::string number_text(uint64_t number); // "60,000"
// "60,000 mappings", "1 mapping"
std::string amount_text(uint64_t count, std::string_view one, std::string_view many);

// Says what a list lacks.
void say_left_out(Html &page, std::string_view text);

// A square in the colour of a style of the pictures, before its explanation.
void draw_swatch(Html &page, const char *style);

// A term and what it is.
void add_definition(Html &page, std::string_view term, std::string_view text);

struct HtmlCell {
    HtmlCell(std::string shown) : text(std::move(shown)) {}
    HtmlCell(std::string_view shown) : text(shown) {}
    HtmlCell(const char *shown) : text(shown) {}
    HtmlCell(std::string shown, std::string place) : text(std::move(shown)), link(std::move(place))
    {}
    static HtmlCell bar(std::string shown, double share);

    std::string text;
    std::string link = {}; // the id of an element of this page
    double share = -1;     // of a bar, 0 to 1; negative: none
};

struct HtmlColumn {
    const char *name;
    cli::Align align = cli::Align::left;
};

class HtmlTable
{
  public:
    HtmlTable(Html &page, std::string_view label, std::vector<HtmlColumn> columns);

    void add(const std::vector<HtmlCell> &cells) { add(cells, {}); }
    void add_total(const std::vector<HtmlCell> &cells) { add(cells, {{"class", "total"}}); }

  private:
    void add(const std::vector<HtmlCell> &cells, HtmlAttributes row);
    void head();

    Html &page_;
    std::vector<HtmlColumn> columns_;
    Html::Element frame_;
    Html::Element table_;
};

} // namespace cryo::inspect
