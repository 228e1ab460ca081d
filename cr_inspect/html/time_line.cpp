// SPDX-License-Identifier: Apache-2.0
#include "html/time_line.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fmt/chrono.h>

#include "html/pieces.hpp"

namespace cryo::inspect {

using namespace cryo::cli;

namespace {

// Of the picture, in units of its own.
constexpr double kWidth = 1000;
constexpr double kLeft = 78;
constexpr double kRight = 984;
constexpr double kTop = 26;
constexpr double kBottom = 190;
constexpr double kHeight = 222;
constexpr size_t kMostBars = 240;
constexpr int64_t kSecond = 1'000'000'000;

std::string place(double at)
{
    return fmt::format("{:.5g}", at);
}

// A power of two between lines of which there are two to four.
uint64_t step_of(uint64_t largest)
{
    uint64_t step = 1;
    while (step < largest / 4 + 1 && step < uint64_t(1) << 62)
        step *= 2;
    return step;
}

// As much of a time as tells moments apart in a line of so many seconds.
std::string tick_text(int64_t time, double seconds)
{
    constexpr double kDay = 86400;
    const time_t whole = time / kSecond;
    tm parts;
    if (!localtime_r(&whole, &parts))
        return fmt::format("{}", whole);
    if (seconds < 0.5 * kDay)
        return fmt::format("{:%H:%M:%S}", parts);
    if (seconds < 20 * kDay)
        return fmt::format("{:%b %d %H:%M}", parts);
    return fmt::format("{:%Y-%m-%d}", parts);
}

} // namespace

std::optional<int64_t> time_in_words(const std::string &text)
{
    tm parts = {};
    const char *end = strptime(text.c_str(), "%a %b %e %H:%M:%S %Y", &parts);
    if (!end || *end)
        return std::nullopt;
    parts.tm_isdst = -1;
    const time_t seconds = mktime(&parts);
    constexpr time_t kMost = INT64_MAX / kSecond;
    if (seconds < 0 || seconds > kMost)
        return std::nullopt;
    return seconds * kSecond;
}

// Of many that are too near each other to be seen apart, the largest stands for the others.
void TimeLine::merge()
{
    std::ranges::stable_sort(moments_, {}, &Moment::at);
    first_ = moments_.front().at;
    last_ = moments_.back().at;
    if (moments_.size() <= kMostBars)
        return;
    std::vector<Moment> merged;
    double column = -1;
    for (Moment &m : moments_) {
        const double here = std::floor(x_of(m.at) * kMostBars / kWidth);
        if (here != column)
            merged.push_back(std::move(m));
        else if (m.current || (!merged.back().current && m.bytes > merged.back().bytes))
            merged.back() = std::move(m);
        column = here;
    }
    moments_ = std::move(merged);
}

double TimeLine::x_of(int64_t time) const
{
    constexpr double kMargin = 40; // half of a size above a bar
    const double length = double(last_) - double(first_);
    const double share = length > 0 ? (double(time) - double(first_)) / length : 0.5;
    return kLeft + kMargin + share * (kRight - kLeft - 2 * kMargin);
}

void TimeLine::draw_sizes(Html &page, uint64_t largest) const
{
    const uint64_t step = step_of(largest);
    for (uint64_t i = 0; i <= largest / step; i++) {
        const double y = kBottom - double(i * step) / double(largest) * (kBottom - kTop);
        page.single("line", {{"class", "grid"},
                             {"x1", place(kLeft)},
                             {"x2", place(kRight)},
                             {"y1", place(y)},
                             {"y2", place(y)}});
        page.leaf("text", size_text(i * step),
                  {{"class", "size"}, {"x", place(kLeft - 8)}, {"y", place(y + 4)}});
    }
}

void TimeLine::draw_times(Html &page) const
{
    const double length = (double(last_) - double(first_)) / kSecond;
    const int ticks = length < 1 ? 1 : 5;
    for (int i = 0; i < ticks; i++) {
        const double share = ticks == 1 ? 0 : double(i) / (ticks - 1);
        const auto time = int64_t(double(first_) + share * (double(last_) - double(first_)));
        const double x = ticks == 1 ? (kLeft + kRight) / 2 : x_of(time);
        page.single("line", {{"class", "tick"},
                             {"x1", place(x)},
                             {"x2", place(x)},
                             {"y1", place(kBottom)},
                             {"y2", place(kBottom + 5)}});
        page.leaf("text", tick_text(time, length),
                  {{"class", "time"}, {"x", place(x)}, {"y", place(kBottom + 20)}});
    }
}

void TimeLine::draw_bar(Html &page, const Moment &m, uint64_t largest, bool with_size) const
{
    constexpr size_t kFewBars = 12;
    const double width = std::clamp(0.5 * (kRight - kLeft) / double(moments_.size()), 2.0, 26.0);
    const double height = std::max(1.5, double(m.bytes) / double(largest) * (kBottom - kTop));
    const double x = x_of(m.at);
    {
        auto bar = page.in("rect", {{"class", fmt::format("{}{}", m.part ? "part" : "whole",
                                                          m.current ? " current" : "")},
                                    {"x", place(x - width / 2)},
                                    {"y", place(kBottom - height)},
                                    {"width", place(width)},
                                    {"height", place(height)}});
        page.leaf("title", fmt::format("{}: {}, {}", m.label, time_text(m.at), size_text(m.bytes)));
    }
    if (moments_.size() <= kFewBars && with_size)
        page.leaf("text", size_text(m.bytes),
                  {{"class", "bytes"}, {"x", place(x)}, {"y", place(kBottom - height - 6)}});
}

void TimeLine::draw_caption(Html &page) const
{
    auto caption = page.in("figcaption");
    page.leaf("span", label_);
    const auto explain = [&](const char *style, const char *text) {
        auto item = page.in("span");
        draw_swatch(page, style);
        page.text(text);
    };
    if (std::ranges::any_of(moments_, &Moment::part)) {
        explain("whole", "complete");
        explain("part", "needs an earlier one");
    }
    if (std::ranges::any_of(moments_, &Moment::current))
        explain("current", "shown on this page");
}

void TimeLine::draw(Html &page)
{
    if (moments_.size() < 2)
        return;
    merge();
    uint64_t largest = 1;
    for (const Moment &m : moments_)
        largest = std::max(largest, m.bytes);
    auto figure = page.in("figure", {{"class", "time-line"}});
    draw_caption(page);
    auto svg = page.in("svg", {{"viewBox", fmt::format("0 0 {} {}", kWidth, kHeight)},
                               {"role", "img"},
                               {"aria-label", label_}});
    draw_sizes(page, largest);
    draw_times(page);
    constexpr double kSizeWidth = 62;
    double free = 0; // where the next size would not cover another one
    for (const Moment &m : moments_) {
        const double x = x_of(m.at);
        const bool with_size = x - kSizeWidth / 2 >= free;
        if (with_size)
            free = x + kSizeWidth / 2;
        draw_bar(page, m, largest, with_size);
    }
}

} // namespace cryo::inspect
