// SPDX-License-Identifier: Apache-2.0
#include "cli/text.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <unistd.h>

namespace cryo::cli {

std::string size_text(uint64_t bytes)
{
    if (bytes < 1024)
        return fmt::format("{} B", bytes);
    static constexpr const char *units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = double(bytes) / 1024;
    size_t unit = 0;
    while (value >= 1023.95 && unit + 1 < std::size(units)) {
        value /= 1024;
        unit++;
    }
    return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string pages_text(uint64_t pages)
{
    return size_text(pages * image::kPageSize);
}

std::string duration_text(uint64_t nanoseconds)
{
    double seconds = double(nanoseconds) / 1e9;
    if (nanoseconds < 1'000'000)
        return fmt::format("{:.3g} µs", seconds * 1e6);
    if (nanoseconds < 1'000'000'000)
        return fmt::format("{:.3g} ms", seconds * 1e3);
    if (seconds < 120)
        return fmt::format("{:.1f} s", seconds);
    auto whole = uint64_t(seconds);
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string time_text(int64_t nanoseconds)
{
    time_t seconds = nanoseconds / 1'000'000'000;
    tm parts;
    char buffer[64];
    if (!localtime_r(&seconds, &parts) ||
        !strftime(buffer, sizeof buffer, "%Y-%m-%d %H:%M:%S %Z", &parts))
        return fmt::format("{} s since 1970", seconds);
    return buffer;
}

std::string count_text(uint64_t count, std::string_view one, std::string_view many)
{
    return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string hex_text(image::Bytes bytes)
{
    std::string out;
    out.reserve(bytes.size() * 2);
    for (uint8_t b : bytes)
        fmt::format_to(std::back_inserter(out), "{:02x}", b);
    return out;
}

std::vector<std::string> split_strings(std::string_view joined)
{
    std::vector<std::string> out;
    while (!joined.empty()) {
        size_t end = std::min(joined.find('\0'), joined.size());
        out.emplace_back(joined.substr(0, end));
        joined.remove_prefix(std::min(end + 1, joined.size()));
    }
    return out;
}

Output::Output()
{
    const char *no = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    colour_ = isatty(STDOUT_FILENO) && !(no && *no) &&
              !(terminal && std::string_view(terminal) == "dumb");
}

std::string Output::paint(const char *code, std::string_view text) const
{
    return colour_ ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
}

bool Output::finish()
{
    return fflush(stdout) == 0 && !ferror(stdout);
}

namespace {

// Characters, not bytes: continuation bytes of UTF-8 take no room, nor does a colour.
size_t width(std::string_view cell)
{
    size_t n = 0;
    for (size_t i = 0; i < cell.size(); i++) {
        if (cell[i] == '\033')
            i = std::min(cell.find('m', i), cell.size());
        else if ((static_cast<unsigned char>(cell[i]) & 0xc0) != 0x80)
            n++;
    }
    return n;
}

} // namespace

std::string Columns::text(size_t indent) const
{
    std::vector<size_t> widths(align_.size());
    for (const auto &row : rows_)
        for (size_t i = 0; i < row.size(); i++)
            widths[i] = std::max(widths[i], width(row[i]));
    std::string out;
    for (const auto &row : rows_) {
        std::string line(indent, ' ');
        for (size_t i = 0; i < row.size(); i++) {
            std::string pad(widths[i] - width(row[i]), ' ');
            line += align_[i] == Align::right ? pad + row[i] : row[i] + pad;
            line += "  ";
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    }
    return out;
}

} // namespace cryo::cli
