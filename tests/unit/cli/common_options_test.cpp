// SPDX-License-Identifier: Apache-2.0
//
// Each option of the table comes back from the words of a command line and from a message as it
// was.
#include "cli/common_options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

using namespace cryo::cli;

namespace {

constexpr Command commands[] = {Command::checkpoint, Command::keeper, Command::job};

std::vector<std::string> values_of(const CommonOption &option)
{
    if (option.choices.empty())
        return {"user", "/lib/one of mine.so"};
    return {option.choices.begin(), option.choices.end()};
}

// What a command has of a line; all empty if it refuses that.
CommonOptions parsed(std::vector<std::string> words, Command command)
{
    CLI::App app;
    CommonOptions options;
    add_common_options(app, options, command);
    std::ranges::reverse(words); // as CLI11 takes them
    try {
        app.parse(std::move(words));
    } catch (const CLI::ParseError &) {
        return {};
    }
    return options;
}

} // namespace

TEST(CommonOptions, SurviveACommandLine)
{
    for (const Command command : commands) {
        const CommonOptions initial = parsed({}, command);
        for (const CommonOption &option : common_options) {
            EXPECT_EQ(option.to(command).initial, initial.*option.value);
            for (const std::string &value : values_of(option)) {
                CommonOptions options = initial;
                options.*option.value = value;
                const bool has = option.to(command).help != nullptr;
                EXPECT_EQ(has ? options : initial, parsed(words_of(options, command), command))
                    << option.name << " " << value;
            }
        }
    }
}

TEST(CommonOptions, SurviveAMessage)
{
    EXPECT_EQ("{}", nlohmann::json(CommonOptions()).dump());
    for (const CommonOption &option : common_options) {
        for (const std::string &value : values_of(option)) {
            CommonOptions options;
            options.*option.value = value;
            const nlohmann::json sent = options;
            EXPECT_EQ(value, sent.at(option.name));
            EXPECT_EQ(options, nlohmann::json::parse(sent.dump()).get<CommonOptions>());
        }
    }
}

TEST(CommonOptions, AreRefusedWhereTheyAreNotMeant)
{
    for (const CommonOption &option : common_options) {
        const std::string name = std::string("--") + option.name;
        for (const Command command : commands) {
            const CommonOption::Offer &offer = option.to(command);
            if (offer.help == nullptr || !option.choices.empty()) {
                EXPECT_EQ(CommonOptions(), parsed({name + "=nonsense"}, command)) << name;
            }
            const std::string alone = offer.implied != nullptr ? offer.implied : "";
            EXPECT_EQ(alone, parsed({name}, command).*option.value) << name;
        }
    }
}
