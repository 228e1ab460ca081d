// SPDX-License-Identifier: Apache-2.0
#include "coord/new_hosts.hpp"

#include "coord/launcher_options.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

namespace cryo::coord {

namespace {

// Spreads ranks over hosts, one by one.
class Spreading
{
  public:
    explicit Spreading(std::vector<HostRanks> &hosts) : hosts_(hosts) {}

    // How many there was no free slot for.
    unsigned into_free_slots(unsigned ranks)
    {
        for (HostRanks &host : hosts_) {
            const unsigned more = std::min(ranks, host.slots - std::min(host.slots, host.ranks));
            host.ranks += more;
            ranks -= more;
        }
        return ranks;
    }
    void beyond_slots(unsigned ranks)
    {
        for (; ranks > 0; ranks--) {
            const auto least = std::ranges::min_element(
                hosts_, {}, [](const HostRanks &host) { return host.ranks - host.slots; });
            least->ranks++;
        }
    }

  private:
    std::vector<HostRanks> &hosts_;
};

HostRanks *named(std::vector<HostRanks> &hosts, const std::string &name)
{
    const auto found = std::ranges::find_if(
        hosts, [&](const HostRanks &host) { return is_same_host(host.name, name); });
    return found != hosts.end() ? &*found : nullptr;
}

std::string first_label(const std::string &name)
{
    return name.substr(0, name.find('.'));
}

std::string too_few(unsigned missing, const std::vector<HostRanks> &hosts, const NodesToUse &use)
{
    const std::string where =
        hosts.empty() ? "no other node is left"
                      : fmt::format("the other nodes have no slots for {} of its ranks, and the "
                                    "policy does not allow more (pack = false)",
                                    missing);
    return fmt::format("node {} is lost, no spare is left, and {}; start it again with other nodes "
                       "by ompi-restart --hosts, or with --spares",
                       fmt::join(use.lost, ", "), where);
}

} // namespace

bool is_host_name(const std::string &name)
{
    const auto fits = [](unsigned char c) {
        return isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
    };
    return !name.empty() && name.front() != '-' && std::ranges::all_of(name, fits);
}

bool is_same_host(const std::string &a, const std::string &b)
{
    const bool is_short = a.find('.') == std::string::npos || b.find('.') == std::string::npos;
    return a == b || (is_short && first_label(a) == first_label(b));
}

std::string NewHosts::text() const
{
    std::vector<std::string> words;
    words.reserve(all.size());
    for (const HostRanks &host : all)
        words.push_back(fmt::format("{}:{}", host.name, host.ranks));
    return fmt::format("{}", fmt::join(words, ","));
}

std::vector<HostRanks> hosts_of(const Snapshot &snapshot)
{
    std::vector<SnapshotImage> images = snapshot.images;
    std::ranges::sort(images, {}, &SnapshotImage::rank);
    std::vector<HostRanks> hosts;
    for (const SnapshotImage &image : images) {
        const auto known = std::ranges::find(hosts, image.node, &HostRanks::name);
        if (known != hosts.end())
            known->ranks++;
        else
            hosts.push_back({.name = image.node, .ranks = 1});
    }
    for (HostRanks &host : hosts)
        host.slots = host.ranks;
    // Names of another kind (addresses, localhost) say nothing of nodes: then none of them counts.
    std::vector<HostRanks> listed = listed_hosts(snapshot.command, snapshot.directory);
    if (!std::ranges::all_of(hosts,
                             [&](const HostRanks &host) { return named(listed, host.name); }))
        return hosts;
    for (HostRanks &one : listed) {
        if (HostRanks *known = named(hosts, one.name); known != nullptr)
            known->slots = std::max(known->slots, one.slots);
        else
            hosts.push_back(one);
    }
    return hosts;
}

Result<NewHosts> new_hosts(const std::vector<HostRanks> &before, const NodesToUse &use)
{
    NewHosts now;
    unsigned homeless = 0;
    const auto is_in = [](const auto &names, const std::string &name) {
        return std::ranges::any_of(names,
                                   [&](const std::string &one) { return is_same_host(one, name); });
    };
    std::vector<HostRanks> there = before;
    for (const HostRanks &host : before) {
        if (!is_host_name(host.name))
            return Error(EINVAL, fmt::format("node '{}' has no name by which a launcher reaches it",
                                             host.name));
        if (!is_in(use.lost, host.name)) {
            now.all.push_back(host);
            continue;
        }
        if (host.ranks == 0)
            continue;
        const auto spare = std::ranges::find_if(use.spares, [&](const std::string &name) {
            return !is_in(use.lost, name) && !is_in(now.used, name) &&
                   named(there, name) == nullptr;
        });
        if (spare == use.spares.end()) {
            homeless += host.ranks;
            continue;
        }
        now.used.push_back(*spare);
        now.all.push_back({.name = *spare, .ranks = host.ranks, .slots = host.ranks});
    }
    Spreading spreading(now.all);
    const unsigned left = spreading.into_free_slots(homeless);
    if (left > 0 && (now.all.empty() || !use.packs))
        return Error(EHOSTUNREACH, too_few(left, now.all, use));
    spreading.beyond_slots(left);
    now.packed = left > 0;
    std::erase_if(now.all, [](const HostRanks &host) { return host.ranks == 0; });
    return now;
}

} // namespace cryo::coord
