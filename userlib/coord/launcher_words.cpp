// SPDX-License-Identifier: Apache-2.0
#include "coord/launcher_words.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace cryo::coord {

namespace {

bool is_exported(const std::string &name)
{
    return std::ranges::find(exported, name) != std::end(exported) ||
           std::ranges::find(exported_for_any_cpu, name) != std::end(exported_for_any_cpu);
}

} // namespace

std::vector<std::string> without_exports(std::vector<std::string> words)
{
    const std::string first[] = {"-x", job_variable};
    const auto begin = std::search(words.begin(), words.end(), std::begin(first), std::end(first));
    auto end = begin;
    // Cryo adds each name once: what comes again is the user's.
    while (words.end() - end >= 2 && *end == "-x" && is_exported(*(end + 1)) &&
           std::find(begin, end, *(end + 1)) == end)
        end += 2;
    words.erase(begin, end);
    return words;
}

std::optional<std::vector<std::string>> before_restart(const std::vector<std::string> &words)
{
    const auto restart = std::ranges::find_if(words, [](const std::string &word) {
        return std::filesystem::path(word).filename() == "opal-restart";
    });
    if (restart == words.end())
        return std::nullopt;
    std::vector<std::string> before(words.begin(), restart);
    constexpr std::ptrdiff_t behind = 3; // -pmi-port -n RANKS: ompi-restart's own for MPICH
    if (std::ssize(before) >= behind && *(before.end() - behind) == "-pmi-port")
        before.erase(before.end() - behind);
    return before;
}

} // namespace cryo::coord
