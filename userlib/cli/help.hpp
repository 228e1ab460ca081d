// SPDX-License-Identifier: Apache-2.0
//
// The layout of --help: CLI11's, with values described in words instead of CLI11's types, and
// without dependencies between options, which the manual page lists.
//
//     app.formatter(std::make_shared<cli::Help>("PROGRAM [ARGS]..."));
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace cryo::cli {

class Help final : public CLI::Formatter
{
  public:
    // `operands`: what follows on the usage line, which CLI11 does not know.
    explicit Help(std::string operands) : operands_(std::move(operands)) {}

    std::string make_usage(const CLI::App *app, std::string name) const override;
    std::string make_option_name(const CLI::Option *option, bool is_positional) const override;
    std::string make_option_opts(const CLI::Option *option) const override;
    std::string make_option_desc(const CLI::Option *option) const override;

  private:
    std::string operands_;
};

} // namespace cryo::cli
