// SPDX-License-Identifier: Apache-2.0
//
// Options that are whole numbers. Any other word is refused; the message says what is wanted.
// Leading zeros are ignored, so that 010 is ten.
//
//     app.add_option("ID", options.id, "The process")->transform(cli::above_zero());
//     // ID: wants a whole number above 0, not 'many'
#pragma once

#include <CLI/CLI.hpp>

namespace cryo::cli {

CLI::Validator above_zero();
CLI::Validator zero_or_more();
CLI::Validator open_descriptor(); // of -F, --fd beside -f, --file

} // namespace cryo::cli
