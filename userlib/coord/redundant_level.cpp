// SPDX-License-Identifier: Apache-2.0
#include "coord/redundant_level.hpp"

#include "coord/daemon.hpp"
#include "coord/patience.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

namespace {

// Of a set, where its scheme needs no larger one: the more nodes, the less space, and the more have
// to be there for a node's images to come back.
constexpr uint32_t usual_set = 8;
constexpr uint32_t members_for_a_loss = 4;
// All connect to the first one at once, and a daemon has room for as many strangers.
constexpr uint32_t largest_set = 16;

// Of each node, or an error that names one of which nothing is said.
Result<std::vector<std::string>> racks_for(const std::vector<std::string> &nodes,
                                           const json &request)
{
    if (!request.contains("racks"))
        return nodes; // each by itself
    std::map<std::string, std::string> of_node;
    for (const json &one : request.at("racks"))
        of_node[one.at("node").get<std::string>()] = one.at("rack").get<std::string>();
    std::vector<std::string> racks;
    for (const std::string &node : nodes) {
        const auto at = of_node.find(node);
        if (at == of_node.end())
            return Error(ENOENT, fmt::format("--racks: the file says nothing of node {}; add it to "
                                             "its rack",
                                             node));
        racks.push_back(at->second);
    }
    return racks;
}

} // namespace

RedundantLevel::~RedundantLevel()
{
    loop_.call_off(timer_);
}

Result<void> RedundantLevel::plan(const json &request, const std::map<uint32_t, RankPlace> &ranks)
{
    if (!request.contains("redundancy"))
        return {};
    if (!request.contains("local"))
        return Error(EINVAL,
                     "--redundancy: parity is kept beside the images on their nodes; name a "
                     "directory of the nodes (--local)");
    const Result<redundancy::Scheme> scheme =
        redundancy::parse_scheme(request.at("redundancy").get<std::string>());
    if (!scheme)
        return scheme.error().within("--redundancy");
    std::set<uint32_t> members;
    for (const auto &[rank, place] : ranks)
        members.insert(place.member);
    std::vector<std::string> names;
    names.reserve(members.size());
    for (const uint32_t member : members)
        names.push_back(members_.name(member));
    const Result<std::vector<std::string>> racks = racks_for(names, request);
    if (!racks)
        return racks.error();
    const uint32_t most = std::clamp(members_for_a_loss * scheme->losses, usual_set, largest_set);
    Result<redundancy::Sets> sets = redundancy::choose_sets(*racks, most, *scheme);
    if (!sets)
        return sets.error().within(fmt::format("--redundancy {}, with ranks on {}",
                                               request.at("redundancy").get<std::string>(),
                                               fmt::join(names, ", ")));
    for (const std::vector<uint32_t> &set : sets->members) {
        if (set.size() > largest_set + 1)
            return Error(EINVAL, fmt::format("--redundancy {}: with ranks on {} nodes, a set would "
                                             "have {}, and all of more than {} do not get a "
                                             "connection at once; choose a smaller one",
                                             request.at("redundancy").get<std::string>(),
                                             names.size(), set.size(), largest_set + 1));
    }
    scheme_ = *scheme;
    plan_ = std::move(*sets);
    nodes_.assign(members.begin(), members.end());
    return {};
}

void RedundantLevel::begin(uint64_t checkpoint, const std::vector<SnapshotImage> &images,
                           const std::map<uint32_t, RankPlace> &ranks,
                           std::chrono::milliseconds longest, Then then)
{
    then_ = std::move(then);
    awaited_ = std::set<uint32_t>(nodes_.begin(), nodes_.end());
    timer_ = loop_.after(longest.count(), [this, longest] {
        std::vector<std::string> names;
        for (const uint32_t member : awaited_)
            names.push_back(members_.name(member));
        give_up(Error(ETIMEDOUT, fmt::format("node {}: has made no parity in {}; --time gives it "
                                             "longer",
                                             fmt::join(names, ", "), in_seconds(longest))));
    });
    if (Result<void> told = tell_members(checkpoint, images, ranks); !told)
        give_up(told.error());
}

Result<void> RedundantLevel::tell_members(uint64_t checkpoint,
                                          const std::vector<SnapshotImage> &images,
                                          const std::map<uint32_t, RankPlace> &ranks)
{
    std::map<uint32_t, json> of_member;
    for (const uint32_t member : nodes_)
        of_member[member] = json::array();
    for (const SnapshotImage &image : images) {
        if (image.checksum.empty())
            return Error(ENOENT, fmt::format("node {} has no image of rank {} in its own directory",
                                             image.node, image.rank));
        of_member[ranks.at(image.rank).member].push_back({{"rank", image.rank},
                                                          {"pid", image.pid},
                                                          {"bytes", image.bytes},
                                                          {"checksum", image.checksum}});
    }
    for (size_t set = 0; set < plan_.members.size() && is_under_way(); set++) {
        if (Result<void> told = tell_set(set, checkpoint, of_member); !told)
            return told;
    }
    return {};
}

// Each key is sent only to the two daemons that it is for, over their own connections.
Result<void> RedundantLevel::tell_set(size_t set, uint64_t checkpoint,
                                      const std::map<uint32_t, json> &images)
{
    const std::vector<uint32_t> &indexes = plan_.members[set];
    SnapshotSet &named = sets_.emplace_back();
    named.id = random_hex(8);
    json members = json::array();
    for (const uint32_t index : indexes) {
        named.nodes.push_back(members_.name(nodes_[index]));
        members.push_back({{"node", named.nodes.back()}, {"images", images.at(nodes_[index])}});
    }
    std::vector<std::vector<std::string>> keys(indexes.size()); // to those before it
    for (size_t i = 0; i < indexes.size(); i++) {
        for (size_t j = 0; j < i; j++)
            keys[i].push_back(to_hex(random_key()));
    }
    for (size_t i = 0; i < indexes.size() && is_under_way(); i++) {
        json all = members;
        for (size_t j = 0; j < indexes.size(); j++) {
            if (j != i)
                all[j]["key"] = keys[std::max(i, j)][std::min(i, j)];
            if (j >= i)
                continue;
            const Member *other = members_.find(nodes_[indexes[j]]);
            if (other == nullptr)
                return Error(ECONNRESET,
                             fmt::format("the daemon of node {} has ended", named.nodes[j]));
            const bool is_here = other->number == 0;
            all[j]["addresses"] = is_here ? local_.tcp().addresses : other->addresses;
            all[j]["port"] = is_here ? local_.tcp().port : other->port;
        }
        members_.tell(nodes_[indexes[i]], Message(Type::encode, {{"checkpoint", checkpoint},
                                                                 {"id", named.id},
                                                                 {"redundancy", scheme()},
                                                                 {"member", i},
                                                                 {"members", std::move(all)}}));
    }
    return {};
}

void RedundantLevel::hear(uint32_t member, const Message &message)
{
    if (!is_under_way() || !awaited_.contains(member))
        return;
    const json &fields = message.fields;
    if (fields.contains("error")) {
        give_up(
            Error(fields.value("code", EIO), fmt::format("node {}: {}", members_.name(member),
                                                         fields.at("error").get<std::string>())));
        return;
    }
    awaited_.erase(member);
    parity_bytes_ += fields.value("bytes", uint64_t(0));
    if (awaited_.empty())
        finish({});
}

void RedundantLevel::give_up(const Error &why)
{
    if (is_under_way())
        finish(why);
}

// Later, for a daemon of this process answers while it is being told.
void RedundantLevel::finish(const Result<void> &done)
{
    loop_.call_off(timer_);
    loop_.after(0, [then = std::exchange(then_, nullptr), done] { then(done); });
}

} // namespace cryo::coord
