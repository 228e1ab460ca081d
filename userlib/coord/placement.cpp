// SPDX-License-Identifier: Apache-2.0
#include "coord/placement.hpp"

#include "base/contents.hpp"
#include "coord/new_hosts.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <fmt/format.h>
#include <numeric>
#include <set>
#include <utility>

namespace cryo::coord {

namespace {

constexpr uint64_t largest_weight = 1'000'000'000; // their products with numbers of ranks fit

// An address has no domain.
std::string_view without_domain(std::string_view name)
{
    in_addr ignored = {};
    return inet_pton(AF_INET, std::string(name).c_str(), &ignored) == 1
               ? name
               : name.substr(0, name.find('.'));
}

// A node may be named with its domain or without.
class Seen
{
  public:
    bool add(const std::string &name)
    {
        const std::string first(without_domain(name));
        const bool is_there = names_.contains(first) || names_.contains(name) ||
                              (first == name && firsts_.contains(name));
        names_.insert(name);
        firsts_.insert(first);
        return !is_there;
    }

  private:
    std::set<std::string> names_;
    std::set<std::string> firsts_;
};

std::string_view trimmed(std::string_view text)
{
    constexpr std::string_view blanks = " \t\r";
    const size_t from = text.find_first_not_of(blanks);
    return from == std::string_view::npos
               ? std::string_view()
               : text.substr(from, text.find_last_not_of(blanks) - from + 1);
}

Result<Weight> parse_weight(std::string_view text, const std::string &source)
{
    const size_t equals = text.rfind('=');
    if (equals == std::string_view::npos)
        return Error(EINVAL,
                     fmt::format("{}: '{}' names no weight; write NODE=WEIGHT", source, text));
    const std::string_view node = trimmed(text.substr(0, equals));
    const std::string_view number = trimmed(text.substr(equals + 1));
    if (!is_host_name(std::string(node)))
        return Error(EINVAL,
                     fmt::format("{}: '{}' is no name of a node; write NODE=WEIGHT", source, node));
    uint64_t weight = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), weight);
    if (error != std::errc() || end != number.data() + number.size() || weight == 0 ||
        weight > largest_weight)
        return Error(EINVAL,
                     fmt::format("{}: the weight of node {} is '{}', and has to be a whole number "
                                 "from 1 to {}; leave out nodes that shall have no ranks",
                                 source, node, number, largest_weight));
    return Weight{std::string(node), weight};
}

size_t count_moves(const std::vector<size_t> &before, const std::vector<size_t> &now)
{
    size_t moves = 0;
    for (size_t rank = 0; rank < now.size(); rank++)
        moves += before[rank] != now[rank] ? 1 : 0;
    return moves;
}

std::vector<size_t> in_blocks(const std::vector<size_t> &shares)
{
    std::vector<size_t> node_of;
    for (size_t node = 0; node < shares.size(); node++)
        node_of.insert(node_of.end(), shares[node], node);
    return node_of;
}

// Ranks that can stay do; the rest take what is left, in the order of the nodes.
std::vector<size_t> with_fewest_moves(const std::vector<size_t> &before, std::vector<size_t> left)
{
    std::vector<size_t> node_of(before.size(), NodeNames::none);
    for (size_t rank = 0; rank < before.size(); rank++) {
        if (before[rank] != NodeNames::none && left[before[rank]] > 0) {
            left[before[rank]]--;
            node_of[rank] = before[rank];
        }
    }
    size_t next = 0;
    for (size_t &node : node_of) {
        if (node != NodeNames::none)
            continue;
        while (left[next] == 0)
            next++;
        left[next]--;
        node = next;
    }
    return node_of;
}

} // namespace

Result<std::vector<Weight>> parse_weights(std::string_view text, const std::string &source)
{
    std::vector<Weight> weights;
    Seen seen;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find_first_of(",\n", at), text.size());
        std::string_view part = text.substr(at, end - at);
        at = end + 1;
        if (const size_t comment = part.find('#'); comment != std::string_view::npos) {
            part = part.substr(0, comment);
            at = std::min(text.find('\n', end), text.size()); // commas are in the comment, too
        }
        part = trimmed(part);
        if (part.empty())
            continue;
        Result<Weight> one = parse_weight(part, source);
        if (!one)
            return one.error();
        if (!seen.add(one->node))
            return Error(EINVAL, fmt::format("{}: names node {} twice", source, one->node));
        weights.push_back(std::move(*one));
    }
    if (weights.empty())
        return Error(EINVAL,
                     fmt::format("{}: names no node; write NODE=WEIGHT,NODE=WEIGHT", source));
    return weights;
}

Result<std::vector<Weight>> read_weights(const std::string &path)
{
    const Result<std::string> text = contents(path);
    return text ? parse_weights(*text, path) : text.error();
}

Result<std::vector<size_t>> shares_of(const std::vector<Weight> &weights, size_t ranks)
{
    const uint64_t sum =
        std::accumulate(weights.begin(), weights.end(), uint64_t(0),
                        [](uint64_t all, const Weight &one) { return all + one.weight; });
    std::vector<size_t> shares;
    std::vector<size_t> by_remainder(weights.size());
    std::iota(by_remainder.begin(), by_remainder.end(), size_t(0));
    size_t left = ranks;
    for (const Weight &one : weights) {
        shares.push_back(ranks * one.weight / sum);
        left -= shares.back();
    }
    std::ranges::stable_sort(by_remainder, std::ranges::greater(),
                             [&](size_t node) { return ranks * weights[node].weight % sum; });
    for (size_t i = 0; i < left; i++)
        shares[by_remainder[i]]++;
    const auto none = std::ranges::find(shares, size_t(0));
    if (none == shares.end())
        return shares;
    const Weight &loser = weights[static_cast<size_t>(none - shares.begin())];
    return Error(EINVAL, fmt::format("node {} gets none of {} ranks by its weight, {} of {}; leave "
                                     "it out, or give it more",
                                     loser.node, ranks, loser.weight, sum));
}

NodeNames::NodeNames(const std::vector<Weight> &weights)
{
    for (size_t i = 0; i < weights.size(); i++) {
        const std::string &name = weights[i].node;
        const std::string_view first = without_domain(name);
        names_.push_back({name, i});
        if (first != name)
            shorts_.push_back({std::string(first), i});
    }
    std::ranges::stable_sort(names_, {}, &Known::name);
    std::ranges::stable_sort(shorts_, {}, &Known::name);
}

size_t NodeNames::among(const std::vector<Known> &known, std::string_view name) const
{
    const auto is_named = [&](const Known &one) { return one.name == name; };
    const auto found = std::ranges::lower_bound(known, name, {}, &Known::name);
    const bool is_there = found != known.end() && is_named(*found);
    return is_there && (found + 1 == known.end() || !is_named(found[1])) ? found->index : none;
}

size_t NodeNames::find(std::string_view name) const
{
    name = name.substr(0, name.find('/'));
    if (const size_t exact = among(names_, name); exact != none)
        return exact;
    const std::string_view first = without_domain(name);
    return first == name ? among(shorts_, name) : among(names_, first);
}

Result<Placement> place_ranks(const std::vector<std::string> &before,
                              const std::vector<Weight> &weights, Order order)
{
    Result<std::vector<size_t>> shares = shares_of(weights, before.size());
    if (!shares)
        return shares.error();
    const NodeNames names(weights);
    std::vector<size_t> had;
    had.reserve(before.size());
    for (const std::string &name : before)
        had.push_back(names.find(name));
    Placement placement;
    placement.weights = weights;
    placement.node_of = in_blocks(*shares);
    placement.moves = count_moves(had, placement.node_of);
    placement.in_blocks = true;
    if (order == Order::any) {
        std::vector<size_t> best = with_fewest_moves(had, *shares);
        if (const size_t moves = count_moves(had, best); moves < placement.moves) {
            placement.node_of = std::move(best);
            placement.moves = moves;
            placement.in_blocks = false;
        }
    }
    placement.shares = std::move(*shares);
    return placement;
}

std::string weights_by_rank(const Placement &placement)
{
    std::vector<size_t> lowest(placement.weights.size());
    for (size_t rank = placement.node_of.size(); rank-- > 0;)
        lowest[placement.node_of[rank]] = rank;
    std::string text;
    for (size_t node = 0; node < lowest.size(); node++)
        text += fmt::format("{}{}={}", node == 0 ? "" : ",", lowest[node],
                            placement.weights[node].weight);
    return text;
}

} // namespace cryo::coord
