// SPDX-License-Identifier: Apache-2.0
#include "store/ini.hpp"

#include <algorithm>

namespace cryo::store {

namespace {

constexpr std::string_view blanks = " \t\r";

std::string_view trimmed(std::string_view text)
{
    const size_t first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

} // namespace

std::optional<IniSection> ini_section(std::string_view text, std::string_view name)
{
    std::optional<IniSection> found;
    bool within = false;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        const std::string_view whole = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::string_view line = trimmed(whole);
        if (line.empty() || line.front() == '#' || line.front() == ';')
            continue;
        if (line.front() == '[' && line.back() == ']') {
            within = trimmed(line.substr(1, line.size() - 2)) == name;
            if (within && !found)
                found.emplace();
            continue;
        }
        const size_t equals = line.find('=');
        if (!within || blanks.find(whole.front()) != std::string_view::npos ||
            equals == std::string_view::npos)
            continue;
        found->insert_or_assign(std::string(trimmed(line.substr(0, equals))),
                                std::string(trimmed(line.substr(equals + 1))));
    }
    return found;
}

} // namespace cryo::store
