// SPDX-License-Identifier: Apache-2.0
#include "cli/help.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <vector>

namespace cryo::cli {

namespace {

// CLI11 puts a type's name together from the type of the variable and the names of its checks, with
// colons: "INT:POSITIVE", "TEXT:{auto,none}", "UINT:INT in [1 - 64]".
std::vector<std::string> parts_of(const std::string &type)
{
    std::vector<std::string> parts(1);
    int depth = 0;
    for (const char c : type) {
        depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
        if (c == ':' && depth == 0)
            parts.emplace_back();
        else
            parts.back() += c;
    }
    return parts;
}

bool is_number(const std::string &part)
{
    constexpr const char *kinds[] = {"INT", "UINT", "FLOAT", "POSITIVE", "NONNEGATIVE"};
    return std::ranges::find(kinds, part) != std::end(kinds) || part.find(" in [") != part.npos;
}

// "auto|none", "SECONDS", "N"; "": it is a flag.
std::string value_of(const CLI::Option &option)
{
    std::string word;
    for (const std::string &part : parts_of(option.get_type_name())) {
        if (part.starts_with('{') && part.ends_with('}')) {
            std::string choices = part.substr(1, part.size() - 2);
            std::ranges::replace(choices, ',', '|');
            return choices;
        }
        const std::string name = part.substr(0, part.find_first_of(" ["));
        const size_t unit = part.find(" [");
        const bool is_range = part.find(" in [") != part.npos;
        if (unit != part.npos && is_number(name) && !is_range) // "FLOAT [TIME]"
            word = part.substr(unit + 2, part.size() - unit - 3);
        else if (is_number(part))
            word = word.empty() || word == "TEXT" ? "N" : word;
        else if (!name.empty() && (word.empty() || word == "N" || word == "TEXT"))
            word = name;
    }
    return word;
}

} // namespace

std::string Help::make_usage(const CLI::App *app, std::string name) const
{
    std::string usage = Formatter::make_usage(app, std::move(name));
    if (!operands_.empty() && usage.ends_with('\n'))
        usage.insert(usage.size() - 1, " " + operands_);
    return usage;
}

std::string Help::make_option_name(const CLI::Option *option, bool is_positional) const
{
    if (is_positional)
        return Formatter::make_option_name(option, true);
    std::vector<std::string> names;
    for (const std::string &name : option->get_snames())
        names.push_back("-" + name);
    for (const std::string &name : option->get_lnames())
        names.push_back("--" + name);
    return fmt::format("{}", fmt::join(names, ", "));
}

std::string Help::make_option_opts(const CLI::Option *option) const
{
    if (option->get_positional())
        return {};
    const bool may_be_left_out =
        option->get_type_size_max() == 0 || option->get_expected_min() == 0;
    const std::string value = value_of(*option);
    const bool chooses = value.find('|') != std::string::npos;
    if (may_be_left_out)
        return chooses ? fmt::format("[={}]", value) : std::string();
    return value.empty() ? value : " " + value;
}

std::string Help::make_option_desc(const CLI::Option *option) const
{
    std::string text = option->get_description();
    const std::string value = option->get_default_str();
    if (!value.empty() && text.find("default") == std::string::npos)
        text += fmt::format(" (default: {})", value);
    for (const std::string &opposite : option->get_fnames()) {
        const bool turns_off =
            option->get_flag_value(opposite, "") == "false"; // else --delta{auto}
        if (turns_off && text.find("--" + opposite) == std::string::npos)
            text += fmt::format(" (--{}: not so)", opposite);
    }
    if (option->get_required() && !option->get_positional())
        text += " (required)";
    return text;
}

} // namespace cryo::cli
