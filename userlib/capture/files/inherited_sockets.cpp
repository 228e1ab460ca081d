// SPDX-License-Identifier: Apache-2.0
#include "capture/files/inherited_sockets.hpp"

#include "capture/files/inherited.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace cryo::capture {

namespace {

// The inodes that cr_run has noted in its environment, if noted since this boot.
std::set<uint64_t> note_of(const Proc &proc)
{
    std::string boot;
    std::getline(std::ifstream(boot_id_file), boot);
    const std::string name = fmt::format("{}={}:", inherited_variable, boot);
    const Result<std::string> environment = proc.read("environ");
    std::set<uint64_t> inodes;
    if (!environment || boot.empty())
        return inodes;
    std::istringstream variables(*environment);
    for (std::string one; std::getline(variables, one, '\0');) {
        if (!one.starts_with(name))
            continue;
        std::istringstream numbers(one.substr(name.size()));
        for (std::string number; std::getline(numbers, number, ',');)
            inodes.insert(strtoull(number.c_str(), nullptr, 10));
    }
    return inodes;
}

} // namespace

std::set<uint64_t> inherited_sockets(const DescriptorLook &look)
{
    std::vector<std::set<uint64_t>> noted;
    noted.reserve(look.holders().size());
    for (const Holder &holder : look.holders())
        noted.push_back(note_of(holder.proc));
    std::set<uint64_t> inherited;
    for (const std::set<uint64_t> &note : noted)
        inherited.insert(note.begin(), note.end());
    std::set<uint64_t> found;
    for (const resources::Seen &one : look.descriptors()) {
        const uint64_t inode = one.status.st_ino;
        if (inherited.empty())
            break;
        if (noted[one.holder].count(inode) == 0)
            inherited.erase(inode);
        else
            found.insert(inode);
    }
    std::erase_if(inherited, [&](uint64_t inode) { return found.count(inode) == 0; });
    return inherited;
}

} // namespace cryo::capture
