// SPDX-License-Identifier: Apache-2.0
//
// How commands format output for people: sizes, times, text from images, colour, columns.
//
//     out.print("{} {}\n", out.bold("memory"), size_text(bytes));
//     Columns table({Align::left, Align::right});
//     table.add({"heap", size_text(n)});
//     out.print("{}", table.text(2));
#pragma once

#include "base/print.hpp"

#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable.hpp"
#include "image/format.hpp"

namespace cryo::cli {

std::string size_text(uint64_t bytes); // "17 B", "4.0 KiB", "1.2 GiB"
std::string pages_text(uint64_t pages);
std::string duration_text(uint64_t nanoseconds);
std::string time_text(int64_t nanoseconds); // since the epoch, in local time
std::string count_text(uint64_t count, std::string_view one, std::string_view many);
std::string hex_text(image::Bytes bytes);

using cryo::printable;

// Strings that end with NUL each, as in ARGS and ENVIRON.
std::vector<std::string> split_strings(std::string_view joined);

// Standard output, with colour if it is a terminal and neither NO_COLOR nor TERM=dumb forbids it.
class Output
{
  public:
    Output();

    template <class... T>
    void print(fmt::format_string<T...> format, T &&...arguments) const
    {
        cryo::print(format, std::forward<T>(arguments)...);
    }
    std::string bold(std::string_view text) const { return paint("1", text); }
    std::string faint(std::string_view text) const { return paint("2", text); }
    std::string good(std::string_view text) const { return paint("32", text); }
    std::string bad(std::string_view text) const { return paint("31;1", text); }

    // False: some output could not be written.
    static bool finish();

  private:
    std::string paint(const char *code, std::string_view text) const;

    bool colour_;
};

enum class Align { left, right };

// Lines of cells, padded to the width of their column. The last column is not padded.
class Columns
{
  public:
    explicit Columns(std::vector<Align> align) : align_(std::move(align)) {}

    void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
    bool empty() const { return rows_.empty(); }
    std::string text(size_t indent) const;

  private:
    std::vector<Align> align_;
    std::vector<std::vector<std::string>> rows_;
};

} // namespace cryo::cli
