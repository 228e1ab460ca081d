// SPDX-License-Identifier: Apache-2.0
//
// The options of a checkpoint that more than one command has. One table names them: from it come
// the command lines, the words with which one command starts another, and the fields of messages.
//
//     CommonOptions options;
//     add_common_options(app, options, Command::keeper);
//     ... parse ...
//     json message = options;                                            // {"compress": "auto"}
//     words = words_of(message.get<CommonOptions>(), Command::checkpoint); // --compress=auto
#pragma once

#include "image/codec.hpp"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace cryo::cli {

enum class Command : uint8_t {
    checkpoint, // cr_checkpoint
    keeper,     // cr_run and cr_restart, with --interval
    job,        // ompi-checkpoint
};

struct CommonOptions { // "": not chosen
    std::string compress = {};
    std::string delta = {};
    std::string backend = {};
    bool operator==(const CommonOptions &) const = default;
    bool wants_delta() const { return !delta.empty() && delta != "none"; }
};

struct CommonOption {
    struct Offer {
        const char *help = nullptr;    // null: the command line does not have it
        const char *initial = "";      // the value when it is not given
        const char *implied = nullptr; // the value of the option without one; null: it needs one
    };

    const char *name; // of --name=VALUE, and of the field of a message
    std::string CommonOptions::*value;
    std::span<const char *const> choices; // empty: any word
    Offer checkpoint, keeper, job;

    constexpr const Offer &to(Command command) const
    {
        return command == Command::checkpoint ? checkpoint
               : command == Command::keeper   ? keeper
                                              : job;
    }
};

inline constexpr const char *delta_names[] = {"auto", "incremental", "differential", "none"};

inline constexpr CommonOption common_options[] = {
    {
        .name = "compress",
        .value = &CommonOptions::compress,
        .choices = image::compress_names,
        .checkpoint = {.help =
                           "How pages are stored: none: as they are (default); auto: "
                           "compressed while the disk is the bottleneck (default with "
                           "--delta, and below 1 MiB); always: compressed where that saves space"},
        .keeper = {.help = "As in cr_checkpoint: none, auto (default with deltas) or always"},
        .job = {.help = "How pages are stored: none: as they are (default); auto: compressed while "
                        "the disk is the bottleneck (default with --delta); always: compressed "
                        "where that saves space"},
    },
    {
        .name = "delta",
        .value = &CommonOptions::delta,
        .choices = delta_names,
        .checkpoint = {.help = "Leave out pages that an earlier image has: auto, incremental (the "
                               "previous image), differential (the first image), none",
                       .initial = "none",
                       .implied = "auto"},
        .keeper = {.help = "As in cr_checkpoint: auto (default), incremental, differential, none",
                   .initial = "auto"},
        .job = {.help = "Leave out pages that an image of the job's last snapshot has, or one that "
                        "that needs: auto, incremental (the last snapshot), differential (the "
                        "first one that is complete), none",
                .initial = "none",
                .implied = "auto"},
    },
    {
        .name = "backend",
        .value = &CommonOptions::backend,
        .choices = {},
        .checkpoint =
            {.help = "The backend that saves: kmod (the kernel module), user (without it), auto "
                     "(the best one available), criu (also programs that do not run under cr_run; "
                     "for root), self (the program's own functions), or a plug-in",
             .initial = "auto"},
        .keeper = {.initial = "auto"},
        .job = {.help = "The backend that saves the ranks, as for cr_checkpoint (default: auto)"},
    },
};

// Gives the options their initial values, and the command line those that the command has.
std::vector<CLI::Option *> add_common_options(CLI::App &app, CommonOptions &options,
                                              Command command);
// For the command line of a command that is started: what is chosen, as far as it has that.
std::vector<std::string> words_of(const CommonOptions &options, Command command);

// What is chosen.
void to_json(nlohmann::json &said, const CommonOptions &options);
void from_json(const nlohmann::json &said, CommonOptions &options);

} // namespace cryo::cli
