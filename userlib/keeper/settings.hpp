// SPDX-License-Identifier: Apache-2.0
//
// The user's settings for automatic checkpoints: options of cr_run and cr_restart.
//
//     Settings settings;
//     add_options(app, settings);
//     ... parse ...
//     if (settings.wanted())
//         Result<void> good = complete(settings, "context.412.d");
#pragma once

#include "base/result.hpp"
#include "cli/common_options.hpp"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cryo::keeper {

struct Settings {
    // As they are written on the command line.
    std::string interval = {}; // "": no automatic checkpoints
    std::string before = {};
    double failure_interval = 86400; // seconds, before anything has been learnt

    std::string directory = {};     // where images go; whole path
    unsigned keep = 2;              // images that stay, besides those that they need
    cli::CommonOptions common = {}; // of the command that saves
    double max_overhead = 0;        // percent of the program's time; 0: no limit
    std::string second = {};        // a second directory, to which images are copied
    uint64_t bandwidth = 0;         // bytes a second of that copying; 0: no limit
    std::string metrics = {};       // where a file for Prometheus is kept; whole path; "": nowhere
    bool mpi = false;               // the program is the launcher of an MPI job
    std::string image = {};         // that the program comes from, whole path; "": it is a new run
    double interval_s = 0;          // 0: chosen by the cost of checkpoints
    double deadline = 0;            // seconds of CLOCK_REALTIME; 0: there is none
    std::string commands = {};      // where cr_checkpoint is
    bool made_directory = false;    // by complete(): removed if it stays empty
    bool made_second = false;
    std::vector<std::string> notices = {}; // of complete(), for the user; the keeper has none

    bool wanted() const { return !interval.empty(); }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Settings, interval, before, failure_interval, directory, keep,
                                   common, max_overhead, second, bandwidth, metrics, mpi, image,
                                   interval_s, deadline, commands, made_directory, made_second)

void add_options(CLI::App &app, Settings &settings);

// Evaluates the options, and makes the directories. `directory` is the default.
Result<void> complete(Settings &settings, const std::string &directory);

// The options with which cr_restart makes the checkpoints that these settings, which are complete,
// ask for.
std::vector<std::string> words_of(const Settings &settings);

// 90, 90s, 1.5m, 2h, 1d in seconds.
Result<double> duration(const std::string &text);

} // namespace cryo::keeper
