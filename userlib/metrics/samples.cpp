// SPDX-License-Identifier: Apache-2.0
#include "metrics/samples.hpp"

#include "base/printable.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fmt/format.h>

namespace cryo::metrics {

namespace {

constexpr size_t longest_label = 128; // a command's name has 15 bytes, of which each may be escaped
constexpr size_t most_labels = 4;
constexpr double most_value = 1e20; // bytes need less; of 1e300 all digits would be told

// Takes `expected` off the front of what is left.
bool take(std::string_view &left, std::string_view expected)
{
    if (!left.starts_with(expected))
        return false;
    left.remove_prefix(expected.size());
    return true;
}

// A label's value, behind its opening quote; nothing: it does not end, or is no text of ours.
std::optional<std::string> take_quoted(std::string_view &left)
{
    std::string text;
    for (size_t i = 0; i < left.size(); i++) {
        if (left[i] == '"') {
            left.remove_prefix(i + 1);
            return printable(text) == text && text.size() <= longest_label ? std::optional(text)
                                                                           : std::nullopt;
        }
        if (left[i] == '\\' && (++i == left.size() || (left[i] != '\\' && left[i] != '"')))
            return {};
        text += left[i];
    }
    return {};
}

// {pid="412",command="solver"}
bool take_labels(std::string_view &left, Sample &sample)
{
    if (!take(left, "{"))
        return false;
    do {
        const std::string_view name = left.substr(0, left.find('='));
        left.remove_prefix(name.size());
        std::optional<std::string> value;
        if (sample.labels.size() == most_labels || !take(left, "=\"") ||
            !(value = take_quoted(left)))
            return false;
        sample.labels.emplace_back(name, std::move(*value));
    } while (take(left, ","));
    return take(left, "} ");
}

std::optional<Sample> parse_line(std::string_view line)
{
    Sample sample;
    sample.name = line.substr(0, line.find('{'));
    line.remove_prefix(sample.name.size());
    if (!sample.name.starts_with("cryo_") || !take_labels(line, sample))
        return {};
    const char *end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data(), end, sample.value);
    if (error != std::errc() || stop != end || !(sample.value >= 0 && sample.value < most_value))
        return {};
    return sample;
}

} // namespace

Error malformed(std::string_view line)
{
    constexpr size_t enough = 80;
    return {EBADMSG,
            fmt::format("it is not as Cryo writes it, at '{}'", printable(line.substr(0, enough)))};
}

Result<std::vector<Sample>> parse_samples(std::string_view text)
{
    std::vector<Sample> samples;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        if (line.size() == text.size()) // a file that ends within a line is half a file
            return malformed(line);
        text.remove_prefix(line.size() + 1);
        if (line.empty() || line.starts_with("# "))
            continue;
        std::optional<Sample> sample = parse_line(line);
        if (!sample)
            return malformed(line);
        samples.push_back(std::move(*sample));
    }
    if (samples.empty())
        return malformed("");
    return samples;
}

std::optional<size_t> find_family(std::span<const Family> families, std::string_view name)
{
    const auto at = std::ranges::find_if(
        families, [name](const Family &family) { return family.name == name; });
    return at != families.end() ? std::optional(static_cast<size_t>(at - families.begin()))
                                : std::nullopt;
}

} // namespace cryo::metrics
