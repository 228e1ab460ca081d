// SPDX-License-Identifier: Apache-2.0
#include "metrics/commands.hpp"

#include "base/clock.hpp"
#include "base/trust.hpp"
#include "metrics/file.hpp"
#include "metrics/samples.hpp"
#include "sys/own_variable.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <utility>

namespace cryo::metrics {

const std::array<Family, command_value_count> command_families = {{
    {"cryo_command_runs_total", Type::counter,
     "Checkpoints or restarts that the command has made, also for a keeper."},
    {"cryo_command_failures_total", Type::counter,
     "Checkpoints or restarts that the command has failed to make."},
    {"cryo_command_stopped_seconds_total", Type::counter,
     "How long programs stood still for the command's checkpoints.", 6},
    {"cryo_command_written_bytes_total", Type::counter, "Size of the command's images."},
    {"cryo_command_last_timestamp_seconds", Type::gauge,
     "When the command has last made a checkpoint or restart, since 1970.", 3},
}};

namespace {

constexpr const char *variable = "CRYO_METRICS";
constexpr const char *counting[] = {"cr_checkpoint", "cr_restart", "ompi-checkpoint"};
constexpr uint64_t turn_limit_ns = 5'000'000'000;
constexpr int turn_poll_ms = 5;

// Ends with the descriptor. The file is for its owner alone: others could keep a lock on what they
// may open.
Result<Fd> take_turn(const Directory &directory)
{
    constexpr const char *name = ".cryo-commands.lock";
    Fd fd(
        openat(directory.fd(), name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    if (!fd)
        return Error::from_errno(directory.path(name), errno);
    const uint64_t begun = now_ns();
    while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return Error::from_errno(directory.path(name), errno);
        if (now_ns() - begun > turn_limit_ns)
            return Error(ETIMEDOUT, directory.path(name) + ": another process keeps it locked");
        poll(nullptr, 0, turn_poll_ms);
    }
    return fd;
}

} // namespace

void add(Exposition &text, const Commands &commands, const std::string &user)
{
    for (const auto &[command, values] : commands) {
        Labels labels = {{"command", command}};
        if (!user.empty())
            labels.emplace_back("user", user);
        for (size_t i = 0; i < command_value_count; i++)
            text.add(command_families[i], labels, values[i]);
    }
}

Result<Commands> parse_commands(std::string_view text)
{
    const Result<std::vector<Sample>> samples = parse_samples(text);
    if (!samples)
        return samples.error();
    Commands commands;
    std::map<std::string, std::array<bool, command_value_count>> seen;
    for (const Sample &sample : *samples) {
        const auto &labels = sample.labels;
        const std::optional<size_t> at = find_family(command_families, sample.name);
        if (labels.size() != 1 || labels[0].first != "command" ||
            std::ranges::find(counting, labels[0].second) == std::end(counting) ||
            (at && std::exchange(seen[labels[0].second][*at], true)))
            return malformed(sample.name);
        if (at)
            commands[labels[0].second][*at] = sample.value;
    }
    return commands;
}

Result<CommandCount> CommandCount::from_environment(const char *command)
{
    const char *path = sys::own_variable(variable);
    if (path == nullptr || *path == 0)
        return CommandCount(command, std::nullopt);
    Result<Directory> directory = Directory::open(path);
    const Result<void> own = directory ? check_own(directory->fd(), path,
                                                   "metrics are written to a directory of your own")
                                       : directory.error();
    if (!own)
        return own.error().within(variable);
    return CommandCount(command, std::move(*directory));
}

Result<void> CommandCount::add(const Done &what) const
{
    if (!directory_)
        return {};
    const Result<Fd> turn = take_turn(*directory_);
    if (!turn)
        return turn.error().within(variable);
    Commands commands;
    const Result<std::string> text = directory_->read(commands_file, size_t(16) << 10);
    if (!text && text.error().code() != ENOENT)
        return text.error().within(variable);
    if (text) {
        Result<Commands> before = parse_commands(*text);
        if (!before)
            return Error(EBADMSG, directory_->path(commands_file) + ": " + before.error().text() +
                                      "; remove it to begin anew")
                .within(variable);
        commands = std::move(*before);
    }
    auto &values = commands[command_];
    values[what.good ? runs : run_failures] += 1;
    if (what.good) {
        values[run_stopped] += what.stopped_s;
        values[run_bytes] += static_cast<double>(what.bytes);
        values[run_at] = static_cast<double>(clock_ns(CLOCK_REALTIME)) / 1e9;
    }
    Exposition page;
    metrics::add(page, commands, "");
    const Result<ino_t> saved = write_for_all(*directory_, commands_file, page.text());
    return saved ? Result<void>() : saved.error().within(variable);
}

} // namespace cryo::metrics
