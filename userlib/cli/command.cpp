// SPDX-License-Identifier: Apache-2.0
#include "cli/command.hpp"

#include "cli/requester.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>

namespace cryo::cli {

std::optional<int> parse(CLI::App &app, int argc, char **argv)
{
    return parse(app, {argv + 1, argv + argc});
}

std::optional<int> parse(CLI::App &app, std::vector<std::string> words)
{
    app.set_version_flag("--version", app.get_name() + " (Cryo) " CRYO_VERSION);
    app.set_help_flag("-h,-?,--help", "Show the options");
    std::reverse(words.begin(), words.end()); // as CLI11 takes them
    try {
        app.parse(std::move(words));
    } catch (const CLI::ParseError &error) {
        const int code = app.exit(error);
        if (code != 0)
            tell_requester(EINVAL, 0);
        return code == 0 ? 0 : usage_exit;
    }
    return std::nullopt;
}

int fail(std::string_view command, const Error &error, int value)
{
    const std::string line = fmt::format("{}: {}", command, error.text());
    if (!log_for_requester(line))
        fmt::print(stderr, "{}\n", line);
    tell_requester(error.code() != 0 ? error.code() : EIO, value);
    const int code = error.code() & 0xff;
    return code == 0 ? 1 : code;
}

} // namespace cryo::cli
