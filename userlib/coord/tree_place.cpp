// SPDX-License-Identifier: Apache-2.0
#include "coord/tree_place.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

namespace {

// A parent may not know us yet: it is told of us at the same time as we are told of it.
constexpr int most_tries = 40;
constexpr int64_t first_try_ms = 10;
constexpr int64_t longest_try_ms = 500;

std::string child_name(uint64_t generation, uint32_t index)
{
    return fmt::format("child/{}/{}", generation, index);
}

} // namespace

TreePlace::TreePlace(Loop &loop, NodeRanks &ranks, const Ways &ways, Report report, Events events)
    : loop_(loop), ranks_(ranks), ways_(ways), report_(std::move(report)),
      events_(std::move(events))
{}

TreePlace::~TreePlace() = default;

bool TreePlace::is_agreeing() const
{
    return node_ && node_->outcome() == bookmark::Node::Outcome::working;
}

// The daemon above us in the tree may not be able to cancel it.
void TreePlace::cancelled()
{
    if (node_ && parent_)
        node_->lost_parent();
}

std::optional<Key> TreePlace::key_of(const std::string &identity) const
{
    const auto at = child_keys_.find(identity);
    return at != child_keys_.end() ? std::optional(at->second.second) : std::nullopt;
}

std::optional<uint32_t> TreePlace::child_of(const std::string &identity) const
{
    const auto at = child_keys_.find(identity);
    return at != child_keys_.end() ? std::optional(at->second.first) : std::nullopt;
}

void TreePlace::attach(const std::shared_ptr<Channel> &channel, uint32_t child)
{
    children_[child] = channel;
    Channel *raw = channel.get();
    channel->on_frame = [this, child, raw](FrameKind kind, std::string_view body) {
        if (!node_ || children_.size() <= child || children_[child].get() != raw)
            return;
        if (!take(child, kind, body))
            raw->refuse();
        events_.progress();
    };
    channel->on_end = [this, child, raw] {
        if (!node_ || children_.size() <= child || children_[child].get() != raw)
            return;
        node_->lost_child(child);
        events_.progress();
    };
    check_placed();
}

bool TreePlace::take(uint32_t child, FrameKind kind, std::string_view body)
{
    if (kind == FrameKind::json && is_joined()) {
        const Result<Message> message = unpack(Speaker::member, body);
        return message && message->type == Type::reports && events_.reports(child, *message);
    }
    const auto *bytes = reinterpret_cast<const uint8_t *>(body.data());
    return kind == FrameKind::bookmark && node_->from_child(child, {bytes, body.size()});
}

// The first daemon's words, of which the daemon above passes on these alone.
bool TreePlace::take_from_parent(FrameKind kind, std::string_view body)
{
    if (kind == FrameKind::json && is_joined()) {
        const Result<Message> message = unpack(Speaker::coordinator, body);
        if (!message || (message->type != Type::prepare && message->type != Type::look &&
                         message->type != Type::finish))
            return false;
        tell_children(*message);
        events_.command(*message);
        return true;
    }
    const auto *bytes = reinterpret_cast<const uint8_t *>(body.data());
    return kind == FrameKind::bookmark && (!node_ || node_->from_parent({bytes, body.size()}));
}

void TreePlace::tell_children(const Message &message) const
{
    const std::string text = message.pack();
    for (const std::shared_ptr<Channel> &child : children_) {
        if (child)
            child->send(FrameKind::json, text);
    }
}

void TreePlace::tell_parent(const Message &message) const
{
    if (parent_)
        parent_->send(message);
}

void TreePlace::place(const Message &message)
{
    generation_ = message.fields.at("generation");
    const auto daemons = message.fields.at("daemons").get<std::vector<uint32_t>>();
    child_ranks_ = message.fields.at("ranks").get<std::vector<uint32_t>>();
    bookmark::Routes routes;
    routes.children = static_cast<uint32_t>(daemons.size() + child_ranks_.size());
    for (uint32_t child = 0; child < routes.children; child++)
        routes.is_rank.push_back(child >= daemons.size());
    for (const json &run : message.fields.at("runs")) {
        if (run.at(2) < routes.children)
            routes.runs.push_back({run.at(0), run.at(1), run.at(2)});
    }
    const bool parts = is_joined();
    index_ = message.fields.at("index");
    nodes_below_ = message.fields.value("nodes", size_t(0));
    ranks_below_ = 0;
    for (const bookmark::Routes::Run &run : routes.runs)
        ranks_below_ += run.last - run.first + 1;
    const bool root = !message.fields.contains("parent");
    detach();
    children_.assign(daemons.size(), nullptr);
    const json keys = message.fields.value("keys", json::array());
    for (uint32_t child = 0; child < daemons.size() && child < keys.size(); child++) {
        if (const std::optional<Key> key = key_from_hex(keys[child]))
            child_keys_[child_name(generation_, daemons[child])] = {child, *key};
    }
    placed_ = false;
    node_ = std::make_unique<bookmark::Node>(
        bookmark::Node::Config{.routes = std::move(routes), .root = root},
        static_cast<bookmark::Node::Output &>(*this));
    for (auto &[number, rank] : ranks_.all())
        rank.child.reset();
    for (size_t i = 0; i < child_ranks_.size(); i++) {
        const auto child = static_cast<uint32_t>(daemons.size() + i);
        if (NodeRank *rank = ranks_.find(child_ranks_[i]))
            rank->child = child;
        else
            node_->lost_child(child);
    }
    has_parent_ = root;
    if (!root) {
        const json &parent = message.fields.at("parent");
        to_parent_ = {.addresses = parent.at("addresses").get<std::vector<std::string>>(),
                      .port = parent.at("port"),
                      .key = key_from_hex(parent.at("key")).value_or(random_key()),
                      .identity = child_name(generation_, message.fields.at("index"))};
        tries_ = 0;
        connect_parent();
    }
    check_placed();
    if (parts)
        events_.parted();
}

// Closes the connections of the previous tree.
void TreePlace::detach()
{
    child_keys_.clear();
    for (const std::shared_ptr<Channel> &child : children_) {
        if (child)
            child->close();
    }
    if (parent_)
        parent_->close();
    parent_.reset();
}

void TreePlace::connect_parent()
{
    Result<std::shared_ptr<Channel>> channel = ways_.to_parent(loop_, to_parent_);
    if (!channel) {
        try_parent_again(channel.error().text());
        return;
    }
    parent_ = std::move(*channel);
    parent_->on_end = [this] {
        if (!has_parent_)
            try_parent_again("the daemon above it does not take it");
        else if (node_)
            lost_parent();
    };
    parent_->on_secure = [this] {
        parent_->on_frame = [this](FrameKind kind, std::string_view body) {
            const std::shared_ptr<Channel> from = parent_; // a new tree may come with it
            if (!take_from_parent(kind, body))
                from->refuse();
        };
        has_parent_ = true;
        check_placed();
    };
}

void TreePlace::lost_parent()
{
    node_->lost_parent();
    if (std::exchange(nodes_below_, 0) != 0)
        events_.parted();
}

void TreePlace::try_parent_again(const std::string &error)
{
    if (tries_++ >= most_tries) {
        report_(Message(Type::unplaced, {{"error", error}}));
        return;
    }
    const int64_t wait = std::min(first_try_ms << std::min(tries_, 6), longest_try_ms);
    loop_.after(wait, [this, generation = generation_] {
        if (generation == generation_ && !has_parent_)
            connect_parent();
    });
}

void TreePlace::check_placed()
{
    if (placed_ || !has_parent_ || !node_)
        return;
    for (const std::shared_ptr<Channel> &child : children_) {
        if (!child)
            return;
    }
    placed_ = true;
    report_(Message(Type::placed, {{"generation", generation_}}));
}

void TreePlace::to_child(uint32_t child, bookmark::Bytes message)
{
    const std::string_view body(reinterpret_cast<const char *>(message.data()), message.size());
    if (child < children_.size()) {
        if (children_[child])
            children_[child]->send(FrameKind::bookmark, body);
        return;
    }
    const size_t index = child - children_.size();
    if (index >= child_ranks_.size())
        return;
    const NodeRank *rank = ranks_.find(child_ranks_[index]);
    if (rank != nullptr && rank->child == child)
        rank->channel->send(FrameKind::bookmark, body);
}

void TreePlace::to_parent(bookmark::Bytes message)
{
    if (parent_)
        parent_->send(FrameKind::bookmark,
                      {reinterpret_cast<const char *>(message.data()), message.size()});
}

} // namespace cryo::coord
