// SPDX-License-Identifier: Apache-2.0
#include "cli/common_options.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace cryo::cli {

std::vector<CLI::Option *> add_common_options(CLI::App &app, CommonOptions &options,
                                              Command command)
{
    std::vector<CLI::Option *> added;
    for (const CommonOption &one : common_options) {
        const CommonOption::Offer &offer = one.to(command);
        std::string &value = options.*one.value;
        value = offer.initial;
        if (offer.help == nullptr)
            continue;
        const std::string name = fmt::format("--{}", one.name);
        CLI::Option *option =
            offer.implied != nullptr
                ? app.add_flag(fmt::format("{}{{{}}}", name, offer.implied), value, offer.help)
                : app.add_option(name, value, offer.help)->capture_default_str();
        if (!one.choices.empty())
            option->check(
                CLI::IsMember(std::vector<std::string>(one.choices.begin(), one.choices.end())));
        added.push_back(option);
    }
    return added;
}

std::vector<std::string> words_of(const CommonOptions &options, Command command)
{
    std::vector<std::string> words;
    for (const CommonOption &one : common_options) {
        const std::string &value = options.*one.value;
        if (one.to(command).help != nullptr && !value.empty())
            words.push_back(fmt::format("--{}={}", one.name, value));
    }
    return words;
}

void to_json(nlohmann::json &said, const CommonOptions &options)
{
    said = nlohmann::json::object();
    for (const CommonOption &one : common_options) {
        if (const std::string &value = options.*one.value; !value.empty())
            said[one.name] = value;
    }
}

void from_json(const nlohmann::json &said, CommonOptions &options)
{
    for (const CommonOption &one : common_options)
        options.*one.value = said.value(one.name, "");
}

} // namespace cryo::cli
