// SPDX-License-Identifier: Apache-2.0
#include "shares.hpp"

#include "launcher_line.hpp"

#include "base/print.hpp"
#include "cli/text.hpp"
#include "coord/launch.hpp"
#include "coord/launcher_options.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

using cryo::Error;
using cryo::printable;
using cryo::Result;
using cryo::coord::Order;
using cryo::coord::Placement;
using cryo::coord::Snapshot;
using cryo::coord::SnapshotImage;
using cryo::coord::Weight;
using nlohmann::json;

namespace {

constexpr size_t longest_word = 120'000; // the system takes 128 KiB

Result<std::vector<std::string>> nodes_before(const Snapshot &snapshot)
{
    std::vector<std::string> nodes(snapshot.images.size());
    std::vector<bool> seen(nodes.size());
    for (const SnapshotImage &image : snapshot.images) {
        if (image.rank >= nodes.size() || seen[image.rank])
            return Error(EBADMSG, fmt::format("snapshot {} has {} images, and one of them is of "
                                              "rank {}; take another one (--seq)",
                                              snapshot.seq, nodes.size(), image.rank));
        seen[image.rank] = true;
        nodes[image.rank] = image.node;
    }
    return nodes;
}

// "a:7,b:3"
std::string host_counts(const Placement &placement)
{
    std::vector<std::string> hosts;
    for (size_t node = 0; node < placement.weights.size(); node++)
        hosts.push_back(fmt::format("{}:{}", placement.weights[node].node, placement.shares[node]));
    return fmt::format("{}", fmt::join(hosts, ","));
}

// "a,b,a": the host of each rank.
std::string host_sequence(const Placement &placement)
{
    std::vector<std::string_view> hosts;
    for (const size_t node : placement.node_of)
        hosts.emplace_back(placement.weights[node].node);
    return fmt::format("{}", fmt::join(hosts, ","));
}

Result<void> check_options(const Options &options, const std::string &launcher)
{
    if (cryo::coord::is_srun(launcher) && (options.has_weights() || !options.hosts.empty()))
        return Error(EOPNOTSUPP,
                     fmt::format("{}: srun places ranks by its allocation; give it a file with the "
                                 "host of each rank (SLURM_HOSTFILE) and --mpirun_opts "
                                 "--distribution=arbitrary",
                                 options.has_weights() ? "--weights" : "--hosts"));
    if (!options.has_weights())
        return {};
    const std::string other =
        cryo::coord::placing_option(launcher, split_words(options.mpirun_opts));
    if (!other.empty())
        return Error(EINVAL, fmt::format("--weights says where ranks go, and so does {}; leave "
                                         "that out of --mpirun_opts",
                                         other));
    return {};
}

// "0-6, 9"
std::string ranks_text(const std::vector<size_t> &ranks)
{
    std::vector<std::string> runs;
    for (size_t i = 0; i < ranks.size();) {
        size_t end = i + 1;
        while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1)
            end++;
        runs.push_back(end - i == 1 ? fmt::format("{}", ranks[i])
                                    : fmt::format("{}-{}", ranks[i], ranks[end - 1]));
        i = end;
    }
    return fmt::format("{}", fmt::join(runs, ", "));
}

struct Move {
    const SnapshotImage *image;
    size_t to;
};

std::vector<Move> moves_of(const Snapshot &snapshot, const Placement &placement)
{
    const cryo::coord::NodeNames names(placement.weights);
    std::vector<Move> moves;
    for (const SnapshotImage &image : snapshot.images) {
        const size_t to = placement.node_of[image.rank];
        if (names.find(image.node) != to)
            moves.push_back({&image, to});
    }
    return moves;
}

std::vector<std::vector<size_t>> ranks_of_nodes(const Placement &placement)
{
    std::vector<std::vector<size_t>> ranks(placement.weights.size());
    for (size_t rank = 0; rank < placement.node_of.size(); rank++)
        ranks[placement.node_of[rank]].push_back(rank);
    return ranks;
}

void print_json(const std::vector<std::vector<size_t>> &ranks, const std::vector<Move> &moves,
                const Placement &placement)
{
    json nodes = json::array();
    for (size_t node = 0; node < ranks.size(); node++)
        nodes.push_back({{"node", placement.weights[node].node},
                         {"weight", placement.weights[node].weight},
                         {"ranks", ranks[node]}});
    json moved = json::array();
    for (const Move &move : moves)
        moved.push_back({{"rank", move.image->rank},
                         {"from", move.image->node},
                         {"to", placement.weights[move.to].node},
                         {"bytes", move.image->bytes}});
    cryo::print("{}\n", json({{"nodes", nodes}, {"moves", moved}})
                            .dump(-1, ' ', true, json::error_handler_t::replace));
}

} // namespace

Result<std::optional<Placement>> shares_for(const Snapshot &snapshot, const Options &options,
                                            const std::string &launcher)
{
    if (Result<void> good = check_options(options, launcher); !good)
        return good.error();
    if (!options.has_weights())
        return std::optional<Placement>();
    const Result<std::vector<Weight>> weights =
        options.weights ? cryo::coord::parse_weights(*options.weights, "--weights")
                        : cryo::coord::read_weights(*options.weights_file);
    if (!weights)
        return weights.error();
    const Result<std::vector<std::string>> before = nodes_before(snapshot);
    if (!before)
        return before.error();
    // MPICH's launcher takes a host that comes again for another node, on which shared memory of
    // the first one is not seen; that of Open MPI 5.0 fails at sequences where it binds ranks.
    const Order order = cryo::coord::is_orterun(launcher) ? Order::any : Order::blocks;
    Result<Placement> placement = place_ranks(*before, *weights, order);
    if (placement && !placement->in_blocks && host_sequence(*placement).size() > longest_word)
        placement = place_ranks(*before, *weights, Order::blocks);
    if (!placement)
        return placement.error();
    if (host_counts(*placement).size() > longest_word)
        return Error(E2BIG, fmt::format("--weights: the names of {} nodes are too long for a "
                                        "command line; use a --hostfile with slots instead",
                                        weights->size()));
    return std::optional<Placement>(std::move(*placement));
}

std::vector<std::string> placing_words(const std::string &launcher, const Placement &placement)
{
    if (cryo::coord::is_hydra(launcher))
        return {"-hosts", host_counts(placement)};
    if (placement.in_blocks)
        return {"--host", host_counts(placement), "--map-by", "slot"};
    return {"--host", host_sequence(placement), "--map-by", "seq"};
}

std::vector<std::string> words_for_one(const std::string &launcher, const std::string &node)
{
    if (cryo::coord::is_srun(launcher))
        return {"--nodelist", node};
    Placement alone;
    alone.weights = {{.node = node, .weight = 1}};
    alone.shares = {1};
    alone.in_blocks = true;
    return placing_words(launcher, alone);
}

void show_placement(const Snapshot &snapshot, const Placement &placement, bool as_json)
{
    const std::vector<std::vector<size_t>> ranks = ranks_of_nodes(placement);
    const std::vector<Move> moves = moves_of(snapshot, placement);
    if (as_json) {
        print_json(ranks, moves, placement);
        return;
    }
    for (size_t node = 0; node < ranks.size(); node++) {
        const auto come = static_cast<size_t>(std::ranges::count(moves, node, &Move::to));
        cryo::print("{}: {}{}: {}\n", printable(placement.weights[node].node),
                    cryo::cli::count_text(ranks[node].size(), "rank", "ranks"),
                    come > 0 ? fmt::format(", {} of them new there", come) : "",
                    ranks_text(ranks[node]));
    }
    uint64_t bytes = 0;
    for (const Move &move : moves)
        bytes += move.image->bytes;
    cryo::print("images that move: {} of {}, {}\n", moves.size(), snapshot.images.size(),
                cryo::cli::size_text(bytes));
}
