// SPDX-License-Identifier: Apache-2.0
#include "coord/members.hpp"

#include "base/print.hpp"
#include "coord/daemon.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace cryo::coord {

namespace {

constexpr size_t most_told = 200; // of the name of a node with a number behind it
constexpr size_t most_named = 8;  // in one text

} // namespace

Members::Members(Daemon &local) : local_(local)
{
    all_[0].name = local.name();
    names_.insert(local.name());
}

Member &Members::add(const std::shared_ptr<Channel> &channel, const std::string &node,
                     const Message &first)
{
    const uint32_t number = next_++;
    // A connection is one node. Several hosts may have one name (localhost), and a false node may
    // take that of another one. No node's own name has a slash in it.
    const bool taken = names_.contains(node);
    had_namesakes_ = had_namesakes_ || taken;
    Member &member = all_[number];
    member.number = number;
    // A command takes no longer name than a node may have.
    member.name = taken ? fmt::format("{}/{}", node.substr(0, most_told), number) : node;
    names_.insert(member.name);
    member.addresses = first.fields.at("addresses").get<std::vector<std::string>>();
    member.port = first.fields.at("port");
    member.channel = channel;
    return member;
}

std::optional<std::string> Members::remove(uint32_t number)
{
    const auto at = all_.find(number);
    if (at == all_.end())
        return std::nullopt;
    std::string name = std::move(at->second.name);
    names_.erase(name);
    all_.erase(at);
    in_trouble_.erase(number);
    return name;
}

void Members::blame(uint32_t number, std::string trouble)
{
    if (all_.contains(number))
        in_trouble_[number] = std::move(trouble);
}

Member *Members::find(uint32_t number)
{
    const auto at = all_.find(number);
    return at != all_.end() ? &at->second : nullptr;
}

const Member *Members::find(uint32_t number) const
{
    const auto at = all_.find(number);
    return at != all_.end() ? &at->second : nullptr;
}

std::string Members::name(uint32_t number) const
{
    const auto at = all_.find(number);
    return at != all_.end() ? at->second.name : "";
}

std::string Members::names(const std::vector<uint32_t> &numbers) const
{
    std::string names;
    for (size_t i = 0; i < std::min(numbers.size(), most_named); i++)
        names += fmt::format("{}{}", names.empty() ? "" : ", ", name(numbers[i]));
    return numbers.size() <= most_named
               ? names
               : fmt::format("{} and {} more", names, numbers.size() - most_named);
}

void Members::tell(uint32_t number, const Message &message)
{
    const auto at = all_.find(number);
    if (at == all_.end())
        return;
    if (at->second.channel)
        at->second.channel->send(message);
    else
        local_.command(message);
}

void Members::tell_all(const Message &message)
{
    std::vector<uint32_t> all;
    for (const auto &[number, member] : all_)
        all.push_back(number);
    for (const uint32_t number : all)
        tell(number, message);
}

// Daemons without ranks have no place there.
void Members::tell_along_tree(const Message &message)
{
    if (!joined_) {
        tell_all(message);
        return;
    }
    std::vector<uint32_t> others;
    for (const auto &[number, member] : all_) {
        if (number != 0 && !member.index)
            others.push_back(number);
    }
    local_.tell_below(message);
    for (const uint32_t number : others)
        tell(number, message);
    local_.command(message);
}

void Members::forget_tree()
{
    joined_ = false;
    for (auto &[number, member] : all_)
        member.index.reset();
}

void Members::expel(uint32_t number, const std::string &why)
{
    const auto at = all_.find(number);
    if (at == all_.end())
        return;
    print(stderr, "mpi-daemon: the daemon of node {} {}\n", at->second.name, why);
    if (at->second.channel)
        at->second.channel->refuse();
}

} // namespace cryo::coord
