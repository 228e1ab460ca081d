// SPDX-License-Identifier: Apache-2.0
#include "coord/parameters.hpp"

#include "base/path.hpp"

#include <charconv>
#include <cstdlib>

namespace cryo::coord {

namespace {

constexpr char variable_prefix[] = "OMPI_MCA_";
constexpr char parameter_prefix[] = "hook_cryo_";

bool takes_parameter(const std::string &word)
{
    return word == "--mca" || word == "-mca" || word == "--gmca" || word == "-gmca";
}

} // namespace

Parameters parameters_of(const Variables &variables)
{
    const auto value = [&](const char *name) {
        const auto at = variables.find(std::string(variable_prefix) + parameter_prefix + name);
        return at != variables.end() ? at->second : std::string();
    };
    unsigned keep = 0;
    const std::string kept = value("keep");
    std::from_chars(kept.data(), kept.data() + kept.size(), keep);
    return {value("directory"), value("interval"),  value("backend"), keep,
            value("local"),     value("redundancy")};
}

void export_parameters(const std::vector<std::string> &words)
{
    for (size_t i = 1; i + 2 < words.size(); i++) {
        if (!takes_parameter(words[i]))
            continue;
        if (words[i + 1].starts_with(parameter_prefix)) {
            std::string value = words[i + 2];
            if (words[i + 1].ends_with("_directory") ||
                words[i + 1].ends_with("_local")) // others have another working directory
                value = absolute_path(value);
            setenv((variable_prefix + words[i + 1]).c_str(), value.c_str(), 1);
        }
        i += 2;
    }
}

} // namespace cryo::coord
