// SPDX-License-Identifier: Apache-2.0
#include "redundancy/choose_sets.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <map>
#include <numeric>

namespace cryo::redundancy {

namespace {

uint64_t divided_up(uint64_t what, uint64_t by)
{
    return (what + by - 1) / by;
}

struct Needs {
    uint64_t nodes = 0;
    uint64_t largest_rack = 0;
    uint32_t fewest = 0; // members of a set
    uint32_t most = 0;
    uint32_t losses = 0;
};

uint64_t number_of_sets(const Needs &needs)
{
    const uint64_t possible = needs.nodes / needs.fewest;
    const uint64_t wanted = std::min(divided_up(needs.nodes, needs.most), possible);
    for (const uint32_t together : {uint32_t(1), needs.losses}) {
        const uint64_t apart = divided_up(needs.largest_rack, together);
        if (apart <= possible)
            return std::max(wanted, apart);
    }
    return wanted;
}

// Nodes in the order of their racks, the largest first.
std::vector<uint32_t> by_rack(const std::vector<std::string> &racks,
                              const std::map<std::string, uint64_t> &sizes)
{
    std::vector<uint32_t> order(racks.size());
    std::iota(order.begin(), order.end(), uint32_t(0));
    std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) {
        const uint64_t left = sizes.at(racks[a]);
        const uint64_t right = sizes.at(racks[b]);
        return left != right ? left > right : racks[a] < racks[b];
    });
    return order;
}

void add_remarks(Sets &sets, const Needs &needs)
{
    const auto size = [](const std::vector<uint32_t> &one) { return one.size(); };
    const size_t largest = size(*std::ranges::max_element(sets.members, {}, size));
    if (largest > needs.most)
        sets.remarks.push_back(fmt::format(
            "a set has {} nodes, more than {}: with {} nodes a smaller one would have too few",
            largest, needs.most, needs.nodes));
    if (sets.most_of_a_rack > needs.losses)
        sets.remarks.push_back(fmt::format(
            "a set has {} nodes of a rack, and may lose {}: the largest rack has {} of {} nodes",
            sets.most_of_a_rack, needs.losses, needs.largest_rack, needs.nodes));
}

} // namespace

Result<Sets> choose_sets(const std::vector<std::string> &racks, uint32_t most, const Scheme &scheme)
{
    std::map<std::string, uint64_t> sizes;
    for (const std::string &rack : racks)
        sizes[rack]++;
    Needs needs{.nodes = racks.size(),
                .largest_rack = 0,
                .fewest = std::max(fewest_members(scheme), uint32_t(2)),
                .most = std::min(most, most_members),
                .losses = scheme.losses};
    for (const auto &[rack, size] : sizes)
        needs.largest_rack = std::max(needs.largest_rack, size);
    if (needs.nodes < needs.fewest || needs.most < needs.fewest)
        return Error(EINVAL,
                     fmt::format("{} needs sets of at least {} nodes: there are {} nodes, in "
                                 "sets of at most {}",
                                 text_of(scheme), needs.fewest, needs.nodes, needs.most));
    if (divided_up(needs.nodes, number_of_sets(needs)) > most_members)
        return Error(EINVAL, fmt::format("{} makes sets of more than {} nodes of {} nodes",
                                         text_of(scheme), most_members, needs.nodes));
    // One after the other into each set in turn: the nodes of a rack are in as many sets as there
    // are.
    Sets sets;
    sets.members.resize(number_of_sets(needs));
    const std::vector<uint32_t> order = by_rack(racks, sizes);
    for (size_t i = 0; i < order.size(); i++)
        sets.members[i % sets.members.size()].push_back(order[i]);
    for (std::vector<uint32_t> &one : sets.members)
        std::ranges::sort(one);
    sets.most_of_a_rack =
        static_cast<uint32_t>(divided_up(needs.largest_rack, sets.members.size()));
    add_remarks(sets, needs);
    return sets;
}

} // namespace cryo::redundancy
