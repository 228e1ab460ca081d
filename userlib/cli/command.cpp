// SPDX-License-Identifier: Apache-2.0
#include "cli/command.hpp"
#include "base/print.hpp"

#include "base/printable.hpp"
#include "cli/error_json.hpp"
#include "cli/help.hpp"
#include "cli/requester.hpp"
#include "cli/unknown_option.hpp"
#include "cli/version.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>
#include <typeinfo>

namespace cryo::cli {

namespace {

// CLI11 adds a hint at --help after the error; only the error quotes words that may be unprintable.
std::string wrong_usage(const CLI::ParseError &error, std::string_view said)
{
    const std::string_view what = error.what();
    const bool is_known = said.starts_with(what);
    return is_known ? printable(what) + std::string(said.substr(what.size()))
                    : printable(said) + "\n";
}

// Without such an option, as in cr_run, the word --json belongs to the program that is run.
bool has_json(const CLI::App &app)
{
    const auto verbs = app.get_subcommands([](const CLI::App *) { return true; });
    return app.get_option_no_throw("--json") != nullptr ||
           std::ranges::any_of(verbs, [](const CLI::App *verb) { return has_json(*verb); });
}

// Reports wrong usage as JSON as well, to a program that reads the command's output.
void tell_as_json(const std::string &what)
{
    const nlohmann::ordered_json all = {{"error", error_json(Error(EINVAL, what))}};
    cryo::print("{}\n", all.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

// An option that does not exist also takes its value from the operands, so it is what is said
// where CLI11 would complain of these.
std::string no_option(const CLI::App &app, const CLI::ParseError &error)
{
    const int code = error.get_exit_code();
    if (code != static_cast<int>(CLI::ExitCodes::ExtrasError) &&
        code != static_cast<int>(CLI::ExitCodes::RequiredError))
        return {};
    const std::string word = unknown_option(app);
    return word.empty() ? "" : no_such_option(app, word);
}

} // namespace

void use_help(CLI::App &app, const std::string &operands)
{
    app.formatter(std::make_shared<Help>(operands));
    for (CLI::App *verb : app.get_subcommands({}))
        use_help(*verb, "");
}

void add_examples(CLI::App &app, const std::vector<Example> &examples)
{
    size_t width = 0;
    for (const Example &one : examples)
        width = std::max(width, one.command.size());
    std::string text = app.get_footer();
    text += text.empty() ? "Examples:" : "\n\nExamples:";
    for (const Example &one : examples)
        text += fmt::format("\n  {:{}}  {}", one.command, width, one.what);
    app.footer(text);
}

std::optional<int> parse(CLI::App &app, int argc, char **argv)
{
    return parse(app, {argv + 1, argv + argc});
}

std::optional<int> parse(CLI::App &app, std::vector<std::string> words)
{
    app.set_version_flag("--version", [&app] { return version_text(app.get_name()); });
    app.set_help_flag("-h,-?,--help", "Show the options");
    const auto formatter = app.get_formatter();
    if (const auto &set_now = *formatter; typeid(set_now) == typeid(CLI::Formatter))
        use_help(app, "");
    const auto end = std::ranges::find(words, "--");
    const bool wants_json = has_json(app) && std::find(words.begin(), end, "--json") != end;
    std::reverse(words.begin(), words.end()); // as CLI11 takes them
    try {
        app.parse(std::move(words));
    } catch (const CLI::ParseError &error) {
        std::ostringstream said;
        std::ostringstream wrong;
        const int code = app.exit(error, said, wrong);
        cryo::print("{}", said.str());
        if (code == 0)
            return 0;
        const std::string unknown = no_option(app, error);
        if (wants_json)
            tell_as_json(unknown.empty() ? error.what() : unknown);
        if (unknown.empty())
            cryo::print(stderr, "{}", wrong_usage(error, wrong.str()));
        else
            say(app.get_name(), unknown);
        tell_requester(EINVAL, 0);
        return usage_exit;
    }
    return std::nullopt;
}

int fail(std::string_view command, const Error &error, int value)
{
    const std::string line = fmt::format("{}: {}", command, printable_message(error.text()));
    if (!log_for_requester(line))
        cryo::print(stderr, "{}\n", line);
    tell_requester(error.code() != 0 ? error.code() : EIO, value);
    const int code = error.code() & 0xff;
    return code == 0 ? 1 : code;
}

void say(std::string_view command, std::string_view text)
{
    cryo::print(stderr, "{}: {}\n", command, printable_message(text));
}

int whole(std::string_view command, const std::function<int()> &run)
{
    int code = 0;
    try {
        code = run();
    } catch (const std::bad_alloc &) {
        return fail(command, Error(ENOMEM, "there is not enough memory"));
    } catch (const std::exception &error) {
        return fail(command, Error(EIO, error.what()));
    }
    // EBADF: it was closed from the start.
    if ((fflush(stdout) != 0 || ferror(stdout) != 0) && errno != EBADF && code == 0)
        return fail(command, Error(EIO, "standard output: cannot be written"));
    return code;
}

} // namespace cryo::cli
