// SPDX-License-Identifier: Apache-2.0
#include "metrics/program.hpp"

#include "metrics/samples.hpp"

#include <charconv>
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

} // namespace

std::string file_name(pid_t pid)
{
    return fmt::format("{}{}{}", before_pid, pid, after_pid);
}

std::optional<pid_t> pid_of(std::string_view name)
{
    if (!name.starts_with(before_pid) || !name.ends_with(after_pid) ||
        name.size() <= before_pid.size() + after_pid.size())
        return {};
    name.remove_prefix(before_pid.size());
    name.remove_suffix(after_pid.size());
    pid_t pid = 0;
    static_cast<void>(std::from_chars(name.data(), name.data() + name.size(), pid));
    // One process has one name only, with neither a sign nor leading zeros.
    return pid > 0 && std::to_string(pid) == name ? std::optional(pid) : std::nullopt;
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
    const Result<std::vector<Sample>> samples = parse_samples(text);
    if (!samples)
        return samples.error();
    Program program{.pid = pid};
    const auto &labels = samples->front().labels;
    if (labels.size() != 2 ||
        labels[0] != std::pair<std::string, std::string>("pid", std::to_string(pid)) ||
        labels[1].first != "command")
        return malformed(samples->front().name);
    program.command = labels[1].second;
    for (const Sample &sample : *samples) {
        const std::optional<size_t> at = find_family(program_families, sample.name);
        if (sample.labels != labels || (at && program.values[*at]))
            return malformed(sample.name);
        if (at)
            program.values[*at] = sample.value;
    }
    return program;
}

} // namespace cryo::metrics
