// SPDX-License-Identifier: Apache-2.0
//
// The options of cr_checkpoint, ompi-checkpoint and cr_restart that are about descriptors and
// files.
//
//     capture::FileOptions files;
//     cli::add_file_options(app, files);
#pragma once

#include "capture/files/file_options.hpp"
#include "restore/file_options.hpp"

#include <CLI/CLI.hpp>

namespace cryo::cli {

void add_file_options(CLI::App &app, capture::FileOptions &files);
void add_contents_options(CLI::App &app, capture::FileOptions &files); // the options --save-...
void add_file_options(CLI::App &app, restore::FileOptions &files);

} // namespace cryo::cli
