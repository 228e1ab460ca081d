// SPDX-License-Identifier: Apache-2.0
//
// Where the parts of this installation are, seen from the running command: an installed tree may
// be moved, and a build tree looks the same.
//
//     std::string preload = cli::library("libcr_run.so");
#pragma once

#include <string>
#include <string_view>

namespace cryo::cli {

// Path of a library beside this command (../lib...), or in the environment's CRYO_LIBDIR.
std::string library(std::string_view name);

// Path of another command, beside this one.
std::string command(std::string_view name);

} // namespace cryo::cli
