// SPDX-License-Identifier: Apache-2.0
#include "coord/job_ranks.hpp"

#include "base/print.hpp"
#include "bookmark/topology.hpp"
#include "coord/daemon.hpp"
#include "sys/own_variable.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fmt/format.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

namespace {

constexpr size_t most_waiting = 1 << 20; // bytes, of refusals
constexpr size_t most_named = 8;         // ranks, in a text
constexpr size_t most_alone = 16;        // daemons, each of which is told everything by itself
// In a larger job the first daemon has so many below it: what it sends and gets is for each of
// them, and with 16 below each of these the tree is hardly deeper.
constexpr uint32_t most_below_first = 4;

uint32_t fanout()
{
    const char *wanted = sys::own_variable("CRYO_FANOUT");
    const int count = wanted != nullptr ? atoi(wanted) : 0;
    return count > 0 ? static_cast<uint32_t>(count) : 16;
}

} // namespace

std::string list_of(const std::vector<uint32_t> &ranks, size_t count)
{
    std::string text;
    const size_t named = std::min(ranks.size(), most_named);
    for (size_t i = 0; i < named; i++)
        text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
    return count <= named ? text : fmt::format("{} and {} more", text, count - named);
}

JobRanks::JobRanks(std::string job, const Daemon &local, Members &members)
    : job_(std::move(job)), local_(local), members_(members)
{}

std::map<uint32_t, RankPlace> &JobRanks::own()
{
    if (ranks_.use_count() > 1)
        ranks_ = std::make_shared<std::map<uint32_t, RankPlace>>(*ranks_);
    return *ranks_;
}

void JobRanks::came(uint32_t member, const Message &message)
{
    const std::string space = message.fields.at("space");
    const uint32_t rank = message.fields.at("rank");
    const uint32_t ranks = message.fields.at("ranks");
    if (space != space_ && ranks_->empty()) { // the next mpirun of a script
        space_ = space;
        built_ = false;
        lost_.clear();
        expected_ = ranks;
    }
    if (space != space_) {
        lost_ = "two MPI jobs run under it at once; start each mpirun under a cr_run of its own";
        return;
    }
    if (ranks_->empty())
        expected_ = ranks;
    if (rank >= ranks) {
        members_.expel(member, fmt::format("has rank {} of {}", rank, ranks));
        return;
    }
    if (ranks != expected_) {
        refuse(member, message,
               fmt::format("node {} has rank {} of {}, where there are {}", members_.name(member),
                           rank, ranks, expected_));
        return;
    }
    const auto [at, is_new] = own().try_emplace(rank, RankPlace{member, message.fields.at("pid")});
    if (!is_new) {
        refuse(member, message,
               fmt::format("nodes {} and {} both have rank {}", members_.name(at->second.member),
                           members_.name(member), rank));
        return;
    }
    on_[member].insert(rank);
    if (ranks_->size() == expected_ && !built_)
        build_tree();
}

// Anything of the user's on a node can say that it is a rank: that ends its own connection, and no
// daemon. Which of two is the right one is known only once all ranks are there, and the tree
// stands.
void JobRanks::refuse(uint32_t member, const Message &rank, const std::string &why)
{
    const Member *at = members_.find(member);
    const std::shared_ptr<Channel> channel = at != nullptr ? at->channel : nullptr;
    if (channel && channel->waiting() > most_waiting) {
        members_.expel(member, "does not read what its ranks are refused for");
        return;
    }
    print(stderr, "mpi-daemon: {}\n", why);
    refused_ = why;
    if (lost_.empty() && !complete())
        lost_ = why;
    members_.tell(member, Message(Type::rank_refused, {{"rank", rank.fields.at("rank")},
                                                       {"pid", rank.fields.at("pid")},
                                                       {"error", why}}));
}

bool JobRanks::left(uint32_t member, uint32_t rank)
{
    const auto at = ranks_->find(rank);
    if (at == ranks_->end() || at->second.member != member)
        return false;
    own().erase(rank);
    if (const auto its = on_.find(member); its != on_.end()) {
        its->second.erase(rank);
        if (its->second.empty())
            on_.erase(its);
    }
    if (lost_.empty())
        lost_ = fmt::format("rank {} has ended", rank);
    if (ranks_->empty()) {
        built_ = false;
        space_.clear();
        lost_.clear();
        refused_.clear();
    }
    return true;
}

void JobRanks::placed(uint32_t member, uint64_t generation)
{
    Member *at = members_.find(member);
    const bool is_in_tree = member == 0 || on_.contains(member);
    if (at != nullptr && generation == generation_ && is_in_tree &&
        !std::exchange(at->placed, true) && unplaced_ > 0)
        unplaced_--;
}

const std::set<uint32_t> &JobRanks::of(uint32_t member) const
{
    static const std::set<uint32_t> none;
    const auto at = on_.find(member);
    return at != on_.end() ? at->second : none;
}

std::string JobRanks::list_of(uint32_t member) const
{
    const std::set<uint32_t> &all = of(member);
    std::vector<uint32_t> first;
    for (auto at = all.begin(); at != all.end() && first.size() < most_named; ++at)
        first.push_back(*at);
    return coord::list_of(first, all.size());
}

// What is said along the tree is checked by it.
void JobRanks::place(const bookmark::Topology &tree, const std::vector<uint32_t> &members)
{
    const bool joined = members.size() > most_alone;
    members_.forget_tree();
    members_.set_joined(joined);
    tree_ = members;
    children_.assign(tree.children(0).begin(), tree.children(0).end());
    below_.assign(joined ? expected_ : 0, bookmark::Topology::kNone);
    for (uint32_t child = 0; joined && child < children_.size(); child++) {
        const uint32_t end = children_[child] + tree.nodes(children_[child]);
        for (uint32_t d = children_[child]; d < end; d++) {
            for (const bookmark::WorldRank rank : tree.ranks(d))
                below_[rank] = child;
        }
    }
    for (uint32_t d = 0; d < members.size(); d++) {
        Member *member = members_.find(members[d]);
        if (member == nullptr)
            continue;
        member->placed = false;
        member->index = joined ? std::optional(d) : std::nullopt;
        member->above = d == 0 ? 0 : members[tree.parent(d)];
    }
}

std::optional<uint32_t> JobRanks::member_below(uint32_t child, uint32_t index) const
{
    if (child >= children_.size() || index >= tree_.size())
        return std::nullopt;
    const bool is_last = child + 1 == children_.size();
    const size_t end = is_last ? tree_.size() : children_[child + 1];
    return index >= children_[child] && index < end ? std::optional(tree_[index]) : std::nullopt;
}

bool JobRanks::is_below(uint32_t child, uint32_t member) const
{
    const Member *at = members_.find(member);
    return at != nullptr && at->index && member_below(child, *at->index) == member;
}

uint32_t JobRanks::child(uint32_t child) const
{
    return tree_[children_[child]];
}

void JobRanks::build_tree()
{
    // Daemon 0 of the tree is this one, with or without ranks.
    std::vector<uint32_t> members = {0};
    for (const auto &[member, ranks] : on_) {
        if (member != 0)
            members.push_back(member);
    }
    unplaced_ = members.size();
    std::vector<std::vector<bookmark::WorldRank>> ranks_of;
    ranks_of.reserve(members.size());
    for (const uint32_t member : members)
        ranks_of.emplace_back(of(member).begin(), of(member).end());
    const bool joined = members.size() > most_alone;
    const bookmark::Topology tree(std::move(ranks_of), fanout(),
                                  joined ? most_below_first : fanout());
    place(tree, members);
    built_ = true;
    generation_++;
    // Each key is sent only to the two daemons that it is for, over their own connections.
    std::vector<std::string> keys;
    for (uint32_t d = 0; d < members.size(); d++)
        keys.push_back(to_hex(random_key()));
    for (uint32_t d = 0; d < members.size(); d++) {
        json runs = json::array();
        for (const bookmark::Routes::Run &run : tree.routes(d).runs)
            runs.push_back({run.first, run.last, run.child});
        Message message(Type::place, {{"generation", generation_},
                                      {"index", d},
                                      {"daemons", tree.children(d)},
                                      {"ranks", tree.ranks(d)},
                                      {"runs", runs}});
        if (members.size() > most_alone)
            message.fields["nodes"] = tree.nodes(d);
        for (const uint32_t child : tree.children(d))
            message.fields["keys"].push_back(keys[child]);
        if (d != 0) {
            const Member *parent = members_.find(members[tree.parent(d)]);
            const bool other = parent != nullptr && parent->number != 0;
            message.fields["parent"] = {
                {"addresses", other ? parent->addresses : local_.tcp().addresses},
                {"port", other ? parent->port : local_.tcp().port},
                {"key", keys[d]}};
        }
        members_.tell(members[d], message);
    }
}

bool JobRanks::are_waited_for() const
{
    return lost_.empty() && (!are_there() || (members_.in_trouble().empty() && unplaced_ != 0));
}

// Of the ranks that are not there the first few are named, and the others counted.
Error JobRanks::missing() const
{
    std::vector<uint32_t> first;
    uint32_t rank = 0;
    for (auto at = ranks_->begin(); rank < expected_ && first.size() < most_named; rank++) {
        if (at != ranks_->end() && at->first == rank)
            ++at;
        else
            first.push_back(rank);
    }
    return Error(EAGAIN,
                 fmt::format("not all ranks are there yet: rank {} has not called MPI_Init, or its "
                             "node does not reach {} (port {})",
                             coord::list_of(first, expected_ - ranks_->size()), job_,
                             local_.tcp().port));
}

Result<void> JobRanks::complete() const
{
    if (!lost_.empty())
        return Error(ESRCH, fmt::format("the job cannot be saved: {}", lost_));
    if (expected_ == 0 || ranks_->empty())
        return Error(EAGAIN, "no rank has called MPI_Init yet, or none is an MPI program that Cryo "
                             "knows");
    if (!are_there())
        return missing();
    if (!members_.in_trouble().empty()) {
        const auto &[number, trouble] = *members_.in_trouble().begin();
        return Error(EHOSTUNREACH, fmt::format("node {}: {}", members_.name(number), trouble));
    }
    if (unplaced_ == 0)
        return {};
    const auto is_awaited = [this](const auto &one) {
        return !one.second.placed && (one.first == 0 || on_.contains(one.first));
    };
    const auto first = std::ranges::find_if(members_.all(), is_awaited);
    return Error(EAGAIN, fmt::format("node {} is not connected to the others yet",
                                     first != members_.all().end() ? first->second.name : ""));
}

} // namespace cryo::coord
