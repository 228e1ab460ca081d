// SPDX-License-Identifier: Apache-2.0
#include "capture/files/inherited_files.hpp"

#include "capture/files/inherited.hpp"

#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace cryo::capture {

namespace {

// The names that cr_run has noted in its environment, if noted since this boot.
std::set<std::string> note_of(const Proc &proc)
{
    std::string boot;
    std::getline(std::ifstream(boot_id_file), boot);
    const std::string name = fmt::format("{}={}:", inherited_variable, boot);
    const Result<std::string> environment = proc.read("environ");
    std::set<std::string> names;
    if (!environment || boot.empty())
        return names;
    std::istringstream variables(*environment);
    for (std::string one; std::getline(variables, one, '\0');) {
        if (!one.starts_with(name))
            continue;
        std::istringstream words(one.substr(name.size()));
        for (std::string word; std::getline(words, word, ',');)
            names.insert(std::move(word));
    }
    return names;
}

} // namespace

std::set<std::string> inherited_files(const DescriptorLook &look)
{
    std::vector<std::set<std::string>> noted;
    noted.reserve(look.holders().size());
    for (const Holder &holder : look.holders())
        noted.push_back(note_of(holder.proc));
    std::set<std::string> inherited;
    for (const std::set<std::string> &note : noted)
        inherited.insert(note.begin(), note.end());
    std::set<std::string> found;
    for (const resources::Seen &one : look.descriptors()) {
        if (inherited.empty())
            break;
        if (!S_ISSOCK(one.status.st_mode) && !S_ISFIFO(one.status.st_mode))
            continue;
        const std::string own = inherited_name(one.status);
        if (noted[one.holder].count(own) == 0)
            inherited.erase(own);
        else
            found.insert(own);
    }
    std::erase_if(inherited, [&](const std::string &own) { return found.count(own) == 0; });
    return inherited;
}

} // namespace cryo::capture
