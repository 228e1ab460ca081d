// SPDX-License-Identifier: Apache-2.0
#include "cli/legacy_options.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace cryo::legacy {

namespace {

bool is_parameter(const std::string &word)
{
    return word == "-mca" || word == "--mca" || word == "-gmca" || word == "--gmca";
}

} // namespace

Words normalise(int argc, char **argv, const std::vector<std::string> &long_options)
{
    Words result;
    for (int i = 1; i < argc; i++) {
        std::string word = argv[i];
        if (word == "--") {
            result.words.insert(result.words.end(), argv + i, argv + argc);
            break;
        }
        if (is_parameter(word) && i + 2 < argc) {
            result.parameters.emplace_back(argv[i + 1], argv[i + 2]);
            i += 2;
            continue;
        }
        const bool one_dash = word.size() > 2 && word[0] == '-' && word[1] != '-';
        const std::string name = one_dash ? word.substr(1, word.find('=') - 1) : "";
        if (std::find(long_options.begin(), long_options.end(), name) != long_options.end())
            word.insert(0, "-");
        result.words.push_back(std::move(word));
    }
    return result;
}

const char *called(char **argv, const char *name)
{
    const char *neutral = name + 1;
    return argv[0] != nullptr && std::string_view(basename(argv[0])) == neutral ? neutral : name;
}

} // namespace cryo::legacy
