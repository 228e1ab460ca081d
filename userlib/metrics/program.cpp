// SPDX-License-Identifier: Apache-2.0
#include "metrics/program.hpp"

#include "base/printable.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

namespace cryo::metrics {

const std::array<Family, value_count> program_families = {{
    {"cryo_checkpoints_total", Type::counter,
     "Automatic checkpoints since the program was started or brought back."},
    {"cryo_checkpoint_failures_total", Type::counter,
     "Automatic checkpoints that have failed since the program was started or brought back."},
    {"cryo_restarts_total", Type::counter, "Restarts from the directory of the program's images."},
    {"cryo_stopped_seconds_total", Type::counter,
     "How long the program stood still for all of these checkpoints together.", 6},
    {"cryo_written_bytes_total", Type::counter, "Size of the images of all of these checkpoints."},
    {"cryo_checkpoint_stop_seconds", Type::gauge,
     "How long the program stood still for its last checkpoint.", 6},
    {"cryo_image_bytes", Type::gauge, "Size of the last image."},
    {"cryo_last_checkpoint_timestamp_seconds", Type::gauge,
     "When the last image was complete, since 1970.", 3},
}};

namespace {

constexpr std::string_view before_pid = "cryo-";
constexpr std::string_view after_pid = ".prom";
constexpr size_t longest_command = 128; // the kernel has 15 bytes, of which each may be escaped

template <class Number>
std::optional<Number> number(std::string_view text)
{
    Number result = {};
    const char *end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, result);
    return error == std::errc() && stop == end ? std::optional(result) : std::nullopt;
}

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
            return printable(text) == text && text.size() <= longest_command ? std::optional(text)
                                                                             : std::nullopt;
        }
        if (left[i] == '\\' && (++i == left.size() || (left[i] != '\\' && left[i] != '"')))
            return {};
        text += left[i];
    }
    return {};
}

struct Sample {
    std::string_view name;
    std::string command;
    double value = 0;
};

std::optional<Sample> parse_line(std::string_view line, pid_t pid)
{
    Sample sample;
    sample.name = line.substr(0, line.find('{'));
    line.remove_prefix(sample.name.size());
    if (!sample.name.starts_with("cryo_") ||
        !take(line, fmt::format("{{pid=\"{}\",command=\"", pid)))
        return {};
    std::optional<std::string> command = take_quoted(line);
    if (!command || !take(line, "} "))
        return {};
    const std::optional<double> value = number<double>(line);
    if (!value || !std::isfinite(*value) || *value < 0)
        return {};
    sample.command = std::move(*command);
    sample.value = *value;
    return sample;
}

// False: contradicts what is known already.
bool put(Program &program, const Sample &sample)
{
    if (program.command != sample.command)
        return false;
    const auto *at = std::ranges::find_if(
        program_families, [&](const Family &family) { return family.name == sample.name; });
    if (at == program_families.end())
        return true;
    std::optional<double> &value =
        program.values[static_cast<size_t>(at - program_families.begin())];
    if (value)
        return false;
    value = sample.value;
    return true;
}

Error malformed(std::string_view line)
{
    constexpr size_t enough = 80;
    return {EBADMSG,
            fmt::format("is not as Cryo writes it, at '{}'", printable(line.substr(0, enough)))};
}

} // namespace

std::string file_name(pid_t pid)
{
    return fmt::format("{}{}{}", before_pid, pid, after_pid);
}

std::optional<pid_t> pid_of(std::string_view name)
{
    if (!take(name, before_pid) || !name.ends_with(after_pid))
        return {};
    name.remove_suffix(after_pid.size());
    const std::optional<pid_t> pid = number<pid_t>(name);
    // One process has one name only, with neither a sign nor leading zeros.
    return pid && *pid > 0 && std::to_string(*pid) == name ? pid : std::nullopt;
}

void add(Exposition &text, const Program &program, const std::string &user)
{
    Labels labels = {{"pid", std::to_string(program.pid)}, {"command", program.command}};
    if (!user.empty())
        labels.emplace_back("user", user);
    for (size_t i = 0; i < value_count; i++)
        if (program.values[i])
            text.add(program_families[i], labels, *program.values[i]);
}

std::string text_of(const Program &program)
{
    Exposition text;
    add(text, program, "");
    return text.text();
}

Result<Program> parse(std::string_view text, pid_t pid)
{
    Program program{.pid = pid};
    bool any = false;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        if (line.size() == text.size()) // a file that ends within a line is half a file
            return malformed(line);
        text.remove_prefix(line.size() + 1);
        if (line.empty() || line.starts_with("# "))
            continue;
        const std::optional<Sample> sample = parse_line(line, pid);
        if (sample && !any)
            program.command = sample->command;
        if (!sample || !put(program, *sample))
            return malformed(line);
        any = true;
    }
    if (!any)
        return malformed("");
    return program;
}

} // namespace cryo::metrics
