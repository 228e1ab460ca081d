// SPDX-License-Identifier: Apache-2.0
// Sockets that a program got from whoever started it.
#include "capture/files.hpp"
#include "capture/inherited.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <sstream>

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

// Connections that each process having them got from whoever started its cr_run: they are not the
// program's own and mostly useless to it. A connection made by a member and passed to a cr_run of
// its own appears only in the note of that cr_run, so it is not among them.
std::set<uint64_t> Files::inherited_sockets() const
{
    std::vector<std::set<uint64_t>> noted;
    noted.reserve(holders_.size());
    for (const Holder &holder : holders_)
        noted.push_back(note_of(holder.proc));
    std::set<uint64_t> inherited;
    for (const std::set<uint64_t> &note : noted)
        inherited.insert(note.begin(), note.end());
    std::set<uint64_t> found;
    for (const auto &[place, seen] : descriptor_) {
        const uint64_t inode = seen_[seen].status.st_ino;
        if (inherited.empty())
            break;
        if (noted[place.first].count(inode) == 0)
            inherited.erase(inode);
        else
            found.insert(inode);
    }
    std::erase_if(inherited, [&](uint64_t inode) { return found.count(inode) == 0; });
    return inherited;
}

} // namespace cryo::capture
