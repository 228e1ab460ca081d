// SPDX-License-Identifier: Apache-2.0
//
// The options of cr_checkpoint and cr_restart for the signal that the processes get afterwards:
// --run, --stop, --term, --abort, --kill, --cont and -S NUMBER. Of several the last one counts.
//
//     int signal = 0;
//     cli::add_signal_options(app, signal, "when it is saved");
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace cryo::cli {

void add_signal_options(CLI::App &app, int &signal, const std::string &when);

} // namespace cryo::cli
