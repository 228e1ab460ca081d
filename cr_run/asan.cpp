// SPDX-License-Identifier: Apache-2.0
#include "asan.hpp"

#include "base/asan.hpp"
#include "coord/launch.hpp"
#include "needed.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace {

bool needs_asan(const std::string &program)
{
    return std::ranges::any_of(needed_libraries(cryo::coord::whole_path(program)), cryo::is_asan);
}

bool names_asan(const std::string &preloaded)
{
    std::istringstream libraries(preloaded);
    for (std::string line; std::getline(libraries, line, ':');) {
        std::istringstream words(line); // blanks separate them, too
        for (std::string one; words >> one;) {
            if (cryo::is_asan(one))
                return true;
        }
    }
    return false;
}

} // namespace

void allow_asan_behind_us(const std::vector<std::string> &programs, const std::string &preloaded)
{
    if (!names_asan(preloaded) && std::ranges::none_of(programs, needs_asan))
        return;
    const char *present = getenv("ASAN_OPTIONS");
    std::string options = present != nullptr ? present : "";
    if (options.find(cryo::asan_order) != std::string::npos)
        return;
    if (!options.empty())
        options += ":";
    options += cryo::asan_unordered;
    setenv("ASAN_OPTIONS", options.c_str(), 1);
}
