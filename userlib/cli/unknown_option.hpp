// SPDX-License-Identifier: Apache-2.0
//
// What a command says of an option that it does not have: the option that is spelled most like it.
//
//     cli::say("cr_run", cli::no_such_option(app, "--intervall"));
//     // there is no option --intervall (did you mean --interval?); try cr_run --help
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cryo::cli {

// The name that is spelled most like this one; "": none is like it.
std::string most_like(const std::string &name, const std::vector<std::string> &names);

// The first word that the parser has left over because it is no option of the command or of the
// subcommand that was named; "": there is none.
std::string unknown_option(const CLI::App &app);

std::string no_such_option(const CLI::App &app, const std::string &word);

} // namespace cryo::cli
