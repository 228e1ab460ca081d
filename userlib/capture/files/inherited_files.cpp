// SPDX-License-Identifier: Apache-2.0
#include "capture/files/inherited_files.hpp"

#include "capture/files/inherited.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace cryo::capture {

namespace {

// A restored process has other files in place of FIFOs that it had inherited; what it has now it
// has opened itself. Cryo's libraries are no files there any more.
bool is_restored(const Proc &proc)
{
    const Result<std::string> maps = proc.read("maps");
    return !maps || maps->find("/libcr_run.so") == std::string::npos;
}

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
    const auto is_fifo = [](const std::string &word) { return word.starts_with('f'); };
    if (std::ranges::any_of(names, is_fifo) && is_restored(proc))
        std::erase_if(names, is_fifo);
    return names;
}

} // namespace

std::set<std::string> inherited_files(const DescriptorLook &look)
{
    std::vector<std::set<std::string>> noted;
    noted.reserve(look.holders().size());
    for (const Holder &holder : look.holders())
        noted.push_back(note_of(holder.proc));
    std::set<std::string> inherited, own;
    for (const resources::Seen &one : look.descriptors()) {
        if (!S_ISSOCK(one.status.st_mode) && !S_ISFIFO(one.status.st_mode))
            continue;
        const bool is_noted = noted[one.holder].contains(inherited_note(one.fd, one.status));
        (is_noted ? inherited : own).insert(inherited_name(one.status));
    }
    std::erase_if(inherited, [&](const std::string &name) { return own.contains(name); });
    return inherited;
}

} // namespace cryo::capture
