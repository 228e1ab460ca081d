// SPDX-License-Identifier: Apache-2.0
#include "screen.hpp"

#include "cli/text.hpp"
#include "survey/words.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <iterator>

namespace cryo::top {

namespace {

using cli::printable;
using survey::Running;

// What needs a look comes first: the oldest image, before it those who have none.
void sort(std::vector<Running> &all, Order order)
{
    const auto by = [&](auto compare, auto of) { std::ranges::stable_sort(all, compare, of); };
    std::ranges::stable_sort(all, {}, [](const Running &one) { return one.said.program; });
    switch (order) {
    case Order::age:
        by(std::less(), [](const Running &one) { return one.said.checkpoint_ns; });
        break;
    case Order::state:
        by(std::less(), [](const Running &one) { return std::pair(!one.is_amiss(), one.state); });
        break;
    case Order::size:
        by(std::greater(), [](const Running &one) { return one.bytes; });
        break;
    case Order::stop:
        by(std::greater(), [](const Running &one) { return one.stopped_ns; });
        break;
    case Order::faults:
        by(std::greater(), [](const Running &one) { return one.said.faults; });
        break;
    case Order::pid:
        break;
    }
}

std::string where_text(const Running &one)
{
    if (one.said.directory.empty())
        return "-";
    return printable(one.said.directory) +
           (one.level.empty() ? "" : fmt::format(" ({})", printable(one.level)));
}

std::string state_text(const Running &one)
{
    return one.job ? one.state + ", job" : one.state;
}

std::string sums(const std::vector<Running> &all)
{
    const auto count = [&](auto of) { return std::ranges::count_if(all, of); };
    const auto jobs = static_cast<size_t>(count([](const Running &one) { return one.job; }));
    const auto amiss = count([](const Running &one) { return one.is_amiss(); });
    uint64_t bytes = 0;
    for (const Running &one : all)
        bytes += one.bytes;
    std::string text = fmt::format("{}, {}, {} in their last images",
                                   cli::count_text(all.size() - jobs, "program", "programs"),
                                   cli::count_text(jobs, "job", "jobs"), cli::size_text(bytes));
    if (amiss > 0)
        text += fmt::format(", {} amiss", amiss);
    return text;
}

std::vector<std::string> split_lines(std::string_view text)
{
    std::vector<std::string> lines;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        lines.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

} // namespace

void Screen::sort_by_next()
{
    order_ = static_cast<Order>((static_cast<size_t>(order_) + 1) % std::size(order_names));
}

std::vector<std::string> Screen::lines(std::vector<Running> all, bool paused) const
{
    sort(all, order_);
    std::vector<std::string> lines = {fmt::format("{}; by {}{}", sums(all),
                                                  order_names[static_cast<size_t>(order_)],
                                                  paused ? "; paused" : ""),
                                      ""};
    if (all.empty()) {
        lines.emplace_back("no program runs under cr_run, and none is saved by itself");
        return lines;
    }
    using enum cli::Align;
    cli::Columns table({right, left, left, right, right, right, right, left, left});
    table.add({"PID", "STATE", "LAST CHECKPOINT", "STOOD STILL", "SIZE", "FAULTS", "RECOVERIES",
               "WHERE", "PROGRAM"});
    for (const Running &one : all) {
        const recover::Published &said = one.said;
        table.add({survey::number_text(said.program), state_text(one),
                   said.checkpoint.empty() ? "-" : survey::age_text(said.checkpoint_ns),
                   one.stopped_ns == 0 ? "-" : cli::duration_text(one.stopped_ns),
                   one.bytes == 0 ? "-" : cli::size_text(one.bytes), std::to_string(said.faults),
                   std::to_string(said.recoveries), where_text(one), printable(said.command)});
    }
    std::ranges::move(split_lines(table.text(0)), std::back_inserter(lines));
    return lines;
}

std::string cut(std::string_view text, size_t columns)
{
    size_t at = 0;
    size_t characters = 0;
    while (at < text.size()) {
        const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80; // of UTF-8
        if (begins && characters++ == columns)
            break;
        at++;
    }
    return std::string(text.substr(0, at));
}

} // namespace cryo::top
