// SPDX-License-Identifier: Apache-2.0
//
// Which hosts the ranks of a job get when some of its nodes are lost: spares take the places of
// lost nodes; without a spare the ranks go to free slots of the others, and then, if that is
// allowed, to those that have the fewest too many.
//
//     Result<NewHosts> hosts = new_hosts(hosts_of(snapshot), {.lost = {"n2"}, .spares = {"n9"}});
//     // hosts->text(): "n1:4,n9:4"
#pragma once

#include "base/result.hpp"
#include "coord/snapshot.hpp"

#include <set>
#include <string>
#include <vector>

namespace cryo::coord {

struct HostRanks {
    std::string name;
    unsigned ranks = 0;
    unsigned slots = 0; // no more ranks than that, unless hosts are packed
    bool operator==(const HostRanks &) const = default;
};

struct NodesToUse {
    std::set<std::string> lost = {};
    std::vector<std::string> spares = {}; // the first ones first
    bool packs = true;                    // more ranks than slots
};

struct NewHosts {
    std::vector<HostRanks> all = {};
    std::vector<std::string> used = {}; // spares
    bool packed = false;                // a host has more ranks than slots

    std::string text() const; // as launchers take them
};

// A name as launchers take it, without a number of ranks.
bool is_host_name(const std::string &name);
// Node names may have a domain, or not.
bool is_same_host(const std::string &a, const std::string &b);
// In the order of their first ranks, with as many slots as ranks, or as the launcher's command
// line says.
std::vector<HostRanks> hosts_of(const Snapshot &snapshot);
Result<NewHosts> new_hosts(const std::vector<HostRanks> &before, const NodesToUse &use);

} // namespace cryo::coord
