// SPDX-License-Identifier: Apache-2.0
#include "recover/nodes.hpp"

#include "coord/launch.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cryo::recover {

namespace {

bool is_in(const std::vector<std::string> &names, const std::string &name)
{
    return std::ranges::find(names, name) != names.end();
}

} // namespace

Nodes::Nodes(std::vector<std::string> spares, bool packs)
{
    use_.spares = std::move(spares);
    use_.packs = packs;
}

std::vector<std::string> Nodes::spares_left() const
{
    std::vector<std::string> left = use_.spares;
    std::erase_if(left, [this](const std::string &name) {
        return taken_.contains(name) || is_in(used_, name) ||
               std::ranges::any_of(use_.lost, [&](const std::string &lost) {
                   return coord::is_same_host(lost, name);
               });
    });
    return left;
}

Result<std::vector<std::string>> Nodes::options(const coord::Snapshot &snapshot,
                                                const std::string &launcher)
{
    told_.clear();
    used_.clear();
    seq_ = snapshot.seq;
    if (!any_lost())
        return std::vector<std::string>();
    const std::vector<coord::HostRanks> before = coord::hosts_of(snapshot);
    coord::NodesToUse use = use_;
    std::erase_if(use.spares, [this](const std::string &name) {
        const auto taken = taken_.find(name);
        return taken != taken_.end() && taken->second < seq_;
    });
    const Result<coord::NewHosts> now = coord::new_hosts(before, use);
    if (!now)
        return now.error();
    const bool had_lost = std::ranges::any_of(before, [this](const coord::HostRanks &host) {
        return host.ranks > 0 && std::ranges::any_of(use_.lost, [&](const std::string &lost) {
                   return coord::is_same_host(lost, host.name);
               });
    });
    used_ = now->used;
    if (had_lost)
        told_ = fmt::format(
            "without node {}{}{}: ranks go to {}", fmt::join(use_.lost, ", "),
            now->used.empty() ? "" : fmt::format(", with spare {}", fmt::join(now->used, ", ")),
            now->packed ? ", as no spare is left, more than their slots on the others" : "",
            now->text());
    std::vector<std::string> words = {"--hosts", now->text()};
    // More ranks than processors cannot be bound to one each.
    if (now->packed && !coord::is_hydra(launcher))
        words.insert(words.end(), {"--mpirun_opts", "--bind-to none"});
    return words;
}

void Nodes::came()
{
    for (const std::string &name : used_)
        taken_[name] = seq_;
    used_.clear();
}

void Nodes::failed()
{
    for (const std::string &name : used_) {
        if (!taken_.contains(name))
            std::erase(use_.spares, name);
    }
    used_.clear();
}

} // namespace cryo::recover
