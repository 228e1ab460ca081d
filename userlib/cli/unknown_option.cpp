// SPDX-License-Identifier: Apache-2.0
#include "cli/unknown_option.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace cryo::cli {

namespace {

// How many letters have to be put in, left out or exchanged, neighbours at once.
size_t distance(const std::string &from, const std::string &to)
{
    std::vector<size_t> above;
    std::vector<size_t> row(to.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    std::vector<size_t> next(row.size());
    for (size_t i = 1; i <= from.size(); i++) {
        next[0] = i;
        for (size_t j = 1; j <= to.size(); j++) {
            const bool same = from[i - 1] == to[j - 1];
            next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (same ? 0 : 1)});
            if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
                next[j] = std::min(next[j], above[j - 2] + 1);
        }
        above = row;
        row = next;
    }
    return row.back();
}

// Names that --help shows: of the command, its groups, and the subcommand that was named.
void add_names(const CLI::App &app, std::vector<std::string> &names)
{
    for (const CLI::Option *option : app.get_options()) {
        if (option->get_group().empty())
            continue;
        const std::vector<std::string> &of_it = option->get_lnames();
        names.insert(names.end(), of_it.begin(), of_it.end());
    }
    for (const CLI::App *part : app.get_subcommands([](const CLI::App *) { return true; })) {
        if (part->get_name().empty() || part->parsed())
            add_names(*part, names);
    }
}

} // namespace

std::string most_like(const std::string &name, const std::vector<std::string> &names)
{
    constexpr size_t long_enough = 3; // to be the beginning of a name
    constexpr size_t longest = 64;    // of what is compared; nobody mistypes more
    std::string found;
    if (name.size() < 2 || name.size() > longest)
        return found;
    size_t least = std::max<size_t>(1, name.size() / 3) + 1;
    for (const std::string &one : names) {
        const bool begins = name.size() >= long_enough && one.starts_with(name);
        const size_t far = begins ? 1 : distance(name, one);
        if (far < least) {
            least = far;
            found = one;
        }
    }
    return found;
}

std::string unknown_option(const CLI::App &app)
{
    for (const std::string &word : app.remaining(true)) {
        if (word == "--")
            break;
        if (word.size() > 1 && word.front() == '-')
            return word;
    }
    return {};
}

std::string no_such_option(const CLI::App &app, const std::string &word)
{
    const std::string name = word.substr(0, word.find('='));
    const std::string letters = name.substr(std::min(name.find_first_not_of('-'), name.size()));
    std::vector<std::string> names;
    add_names(app, names);
    const std::string like = most_like(letters, names);
    return fmt::format("there is no option {}{}; try {} --help", name,
                       like.empty() ? "" : fmt::format(" (did you mean --{}?)", like),
                       app.get_name());
}

} // namespace cryo::cli
