// SPDX-License-Identifier: Apache-2.0
//
// What cr_top shows: a line of sums, and a line for each program and job.
//
//     Screen screen;
//     screen.sort_by_next();                              // key s
//     for (const std::string &line : screen.lines(survey.look(), paused))
//         put(cut(line, terminal.columns()));
#pragma once

#include "survey/programs.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace cryo::top {

enum class Order { age, state, size, stop, faults, pid };

class Screen
{
  public:
    explicit Screen(Order order = Order::age) : order_(order) {}

    void sort_by_next();
    // The sums, an empty line, and the table with its heading.
    std::vector<std::string> lines(std::vector<survey::Running> all, bool paused) const;

  private:
    Order order_;
};

inline constexpr const char *order_names[] = {"age", "state", "size", "stop", "faults", "pid"};

// The first `columns` characters.
std::string cut(std::string_view text, size_t columns);

} // namespace cryo::top
