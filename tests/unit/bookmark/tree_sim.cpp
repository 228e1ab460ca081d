// SPDX-License-Identifier: Apache-2.0
#include "tree_sim.hpp"

#include <algorithm>
#include <stdexcept>

namespace cryo::bookmark::sim {

class TreeSim::Out : public Node::Output
{
  public:
    Out(TreeSim &tree, uint32_t node) : tree_(tree), node_(node) {}
    void to_child(uint32_t child, Bytes message) override
    {
        tree_.put(tree_.connection_[node_][child], message, true);
    }
    void to_parent(Bytes message) override { tree_.put(tree_.up_of_node_[node_], message, true); }
    void state(const StateEntry &state) override { tree_.states.push_back(state); }
    void wanted() override { tree_.wanted = true; }

  private:
    TreeSim &tree_;
    uint32_t node_;
};

TreeSim::TreeSim(const Topology &topology, ToRank to_rank) : to_rank_(std::move(to_rank))
{
    uint32_t n = topology.daemons();
    connection_.resize(n);
    who_.resize(n);
    up_of_node_.resize(n);
    bytes_of_node.resize(n);
    for (uint32_t d = 0; d < n; d++) {
        routes_.push_back(topology.routes(d));
        for (uint32_t c = 0; c < routes_[d].children; c++) {
            bool is_rank = routes_[d].is_rank[c];
            uint32_t who = is_rank ? topology.ranks(d)[c - topology.children(d).size()]
                                   : topology.children(d)[c];
            connection_[d].push_back(queues_.size());
            who_[d].push_back(who);
            queues_.push_back({d, c, true});
            if (is_rank) {
                up_of_rank_.resize(std::max<size_t>(up_of_rank_.size(), who + 1));
                up_of_rank_[who] = queues_.size();
            } else {
                up_of_node_[who] = queues_.size();
            }
            queues_.push_back({d, c, false});
        }
    }
    bytes_of_rank.resize(up_of_rank_.size());
    place_in_busy_.resize(queues_.size());
    for (uint32_t d = 0; d < n; d++) {
        outs_.push_back(std::make_unique<Out>(*this, d));
        nodes_.push_back(std::make_unique<Node>(
            Node::Config{.routes = routes_[d], .root = d == 0, .most_raises = 1'000'000},
            *outs_[d]));
    }
}

TreeSim::~TreeSim() = default;

Node &TreeSim::root()
{
    return *nodes_[0];
}

void TreeSim::put(size_t index, Bytes message, bool filtered)
{
    Queue &q = queues_[index];
    Packed copy(message.begin(), message.end());
    bool is_rank = routes_[q.parent].is_rank[q.child];
    if (filtered && filter.pass && !filter.pass(copy, q.down, is_rank, who_[q.parent][q.child]))
        return;
    if (q.messages.empty()) {
        place_in_busy_[index] = busy_.size();
        busy_.push_back(index);
    }
    q.messages.push_back(std::move(copy));
}

void TreeSim::deliver(size_t which)
{
    deliver_from(busy_[which]);
}

void TreeSim::deliver_wave()
{
    std::vector<std::pair<size_t, size_t>> now;
    for (size_t index : busy_)
        now.emplace_back(index, queues_[index].messages.size());
    for (auto [index, count] : now)
        for (size_t i = 0; i < count; i++)
            deliver_from(index);
}

void TreeSim::deliver_from(size_t index)
{
    Queue &q = queues_[index];
    auto at = q.messages.begin() + long(filter.pick ? filter.pick(q.messages.size()) : 0);
    Packed message = std::move(*at);
    q.messages.erase(at);
    if (q.messages.empty()) {
        size_t which = place_in_busy_[index];
        busy_[which] = busy_.back();
        place_in_busy_[busy_[which]] = which;
        busy_.pop_back();
    }
    messages++;
    total_bytes += message.size();
    most_bytes = std::max<uint64_t>(most_bytes, message.size());
    bytes_of_node[q.parent] += message.size();
    bool is_rank = routes_[q.parent].is_rank[q.child];
    uint32_t who = who_[q.parent][q.child];
    (is_rank ? bytes_of_rank : bytes_of_node)[who] += message.size();
    if (!q.down) {
        if (Result<void> ok = nodes_[q.parent]->from_child(q.child, message); !ok)
            throw std::runtime_error(ok.error().text());
    } else if (is_rank) {
        to_rank_(who, message);
    } else if (Result<void> ok = nodes_[who]->from_parent(message); !ok) {
        throw std::runtime_error(ok.error().text());
    }
}

void TreeSim::from_rank(WorldRank rank, Bytes bytes)
{
    put(up_of_rank_[rank], bytes, true);
}

void TreeSim::inject_up(WorldRank rank, const Packed &bytes)
{
    put(up_of_rank_[rank], bytes, false);
}

void TreeSim::lose(WorldRank rank)
{
    const Queue &q = queues_[up_of_rank_[rank]];
    nodes_[q.parent]->lost_child(q.child);
}

} // namespace cryo::bookmark::sim
