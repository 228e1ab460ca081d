// SPDX-License-Identifier: Apache-2.0
#include "coord/nodes_to_ask.hpp"

#include "coord/heal.hpp"
#include "coord/healing_place.hpp"
#include "coord/node_copies.hpp"
#include "coord/snapshot_removal.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <set>

namespace cryo::coord {

namespace {

std::set<std::string> owners_of(const Snapshot &snapshot, const Directory &all)
{
    std::set<std::string> nodes;
    for (const SnapshotImage &image : snapshot.images) {
        if (!image.local.empty() && why_lacking(all, image, Look::sizes))
            nodes.insert(image.node);
    }
    return nodes;
}

std::set<std::string> with_their_sets(std::set<std::string> nodes, const Snapshot &snapshot)
{
    for (const SnapshotSet &set : snapshot.sets) {
        const auto lacks = [&](const std::string &node) { return nodes.contains(node); };
        if (std::ranges::any_of(set.nodes, lacks))
            nodes.insert(set.nodes.begin(), set.nodes.end());
    }
    return nodes;
}

} // namespace

Result<std::vector<std::string>> nodes_to_ask(const SnapshotStore &store, const Snapshot &snapshot,
                                              const Trust &trust, Whom whom)
{
    const Result<Directory> all = enter_snapshot(store, snapshot, trust);
    if (!all)
        return all.error();
    std::set<std::string> nodes = owners_of(snapshot, *all);
    if (nodes.empty())
        return std::vector<std::string>();
    if (Result<void> own = check_healable(*all); !own)
        return own.error();
    if (whom == Whom::sets)
        nodes = with_their_sets(std::move(nodes), snapshot);
    const NodeCopies copies(snapshot, trust, *all);
    std::set<std::string> hosts; // a second daemon of one name has a number behind it
    for (const std::string &node : nodes) {
        if (!copies.of(node))
            hosts.insert(node.substr(0, node.find('/')));
    }
    return std::vector<std::string>(hosts.begin(), hosts.end());
}

uint64_t bytes_brought(const SnapshotStore &store, const Snapshot &snapshot)
{
    namespace fs = std::filesystem;
    uint64_t bytes = 0;
    std::error_code ignored;
    std::error_code error; // without it, a directory that goes meanwhile would throw
    fs::recursive_directory_iterator entry(
        fmt::format("{}/{}/{}", store.path(), snapshot.seq, brought_name), error);
    for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
        const uint64_t size = entry->is_regular_file(ignored) ? entry->file_size(ignored) : 0;
        bytes += ignored ? 0 : size;
    }
    return bytes;
}

} // namespace cryo::coord
