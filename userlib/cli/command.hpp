// SPDX-License-Identifier: Apache-2.0
//
// The parts that all commands share: parse options (CLI11), answer --help and --version, report an
// error and turn it into an exit code by BLCR's rule: the low 8 bits of errno, 255 for wrong usage.
//
//     CLI::App app("Saves a process", "cr_checkpoint");
//     ...
//     if (std::optional<int> done = cli::parse(app, argc, argv))
//         return *done;
//     return cli::fail("cr_checkpoint", error);
#pragma once

#include "base/result.hpp"

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cryo::cli {

constexpr int usage_exit = 255;

// The exit code when the command is finished already: help, version, or wrong usage.
std::optional<int> parse(CLI::App &app, int argc, char **argv);
// As above, for words that were rearranged before; without the command's name.
std::optional<int> parse(CLI::App &app, std::vector<std::string> words);

// The operands that the usage line names after the options (help.hpp); called before parse() where
// there are any.
void use_help(CLI::App &app, const std::string &operands);

// A command line, and in a few words what it does.
struct Example {
    std::string command;
    std::string what;
};
// Examples end --help, below what the footer says already.
void add_examples(CLI::App &app, const std::vector<Example> &examples);

// A line on standard error, or several (base/printable.hpp).
void say(std::string_view command, std::string_view text);

// Reports the error, also to a program that asked through libcr (requester.hpp), which gets
// `value`, too; returns the exit code.
int fail(std::string_view command, const Error &error, int value = 0);

// Runs a command for main(): catches all exceptions, and reports a failed write to standard output.
//
//     int main(int argc, char **argv)
//     {
//         return cryo::cli::whole("cr_delta", [&] { return run(argc, argv); });
//     }
int whole(std::string_view command, const std::function<int()> &run);

} // namespace cryo::cli
