// SPDX-License-Identifier: Apache-2.0
//
// What commands have done, counted in a file of a directory that CRYO_METRICS names: checkpoints
// and restarts by hand, too, of which no keeper knows. Without the variable nothing is counted.
//
//     Result<CommandCount> count = CommandCount::from_environment("cr_checkpoint");
//     ...
//     Result<void> counted = count->add({.good = true, .stopped_s = 0.012, .bytes = 4096});
#pragma once

#include "base/directory.hpp"
#include "metrics/exposition.hpp"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace cryo::metrics {

inline constexpr const char *commands_file = "cryo-commands.prom";

// The order is that of command_families.
enum CommandValue : uint8_t {
    runs,
    run_failures,
    run_stopped,
    run_bytes,
    run_at,
    command_value_count,
};
extern const std::array<Family, command_value_count> command_families;

using Commands = std::map<std::string, std::array<double, command_value_count>>; // by name

void add(Exposition &text, const Commands &commands, const std::string &user);
// As parse() of a program (program.hpp).
Result<Commands> parse_commands(std::string_view text);

struct Done {
    bool good = true;
    double stopped_s = 0;
    uint64_t bytes = 0;
};

class CommandCount
{
  public:
    // The directory must be the caller's own, which no other user may write to.
    static Result<CommandCount> from_environment(const char *command);

    // Commands that end at once take turns; ETIMEDOUT: one holds the directory for seconds.
    Result<void> add(const Done &done) const;

  private:
    CommandCount(const char *command, std::optional<Directory> directory)
        : command_(command), directory_(std::move(directory))
    {}

    const char *command_;
    std::optional<Directory> directory_; // nothing: nothing is counted
};

} // namespace cryo::metrics
