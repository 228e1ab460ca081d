// SPDX-License-Identifier: Apache-2.0
// A daemon's place in the tree of daemons: its parent and children, and how it identifies them.
#include "coord/daemon.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <sys/socket.h>

namespace cryo::coord {

using nlohmann::json;

namespace {

// A parent may not know us yet: it is told of us at the same time as we are told of it.
constexpr int most_tries = 40;
constexpr int64_t first_try_ms = 10;
constexpr int64_t longest_try_ms = 500;

constexpr uint32_t most_first_message = 16384;

// The name goes into messages and metadata.
bool is_node_name(const std::string &name)
{
    return !name.empty() && name.size() <= 256 &&
           std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~' && c != '/'; });
}

std::string child_name(uint64_t generation, uint32_t index)
{
    return fmt::format("child/{}/{}", generation, index);
}

} // namespace

void Daemon::accept_daemon()
{
    Fd fd(accept4(tcp_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) {
        loop_.rest(tcp_.socket.get());
        return;
    }
    const std::string address = address_to(fd.get());
    be_quick(fd.get());
    const std::shared_ptr<Channel> channel = Channel::make(
        loop_, std::move(fd),
        std::make_unique<Tls>([this](const std::string &who) { return key_of(who); }));
    strangers_.meet(channel, address);
    Channel *at = channel.get();
    channel->on_secure = [this, at] { introduced(at->shared_from_this()); };
}

// The identity that a connection gives determines the key that it must have.
std::optional<Key> Daemon::key_of(const std::string &identity) const
{
    if (on_join && identity.starts_with(join_prefix)) {
        const std::string node = identity.substr(strlen(join_prefix));
        return is_node_name(node) ? std::optional(derived_key(job_.secret, identity))
                                  : std::nullopt;
    }
    const auto at = child_keys_.find(identity);
    return at != child_keys_.end() ? std::optional(at->second.second) : std::nullopt;
}

void Daemon::introduced(const std::shared_ptr<Channel> &channel)
{
    const std::string who = channel->tls()->peer();
    if (const auto at = child_keys_.find(who); at != child_keys_.end()) {
        strangers_.known(*channel);
        attach_child(channel, at->second.first);
        return;
    }
    if (!on_join || !who.starts_with(join_prefix)) { // the tree was rebuilt meanwhile
        channel->refuse();
        return;
    }
    channel->limit(most_first_message);
    channel->on_message(Speaker::newcomer, [this, at = channel.get(), who](const Message &first) {
        const std::shared_ptr<Channel> one = at->shared_from_this();
        strangers_.known(*one);
        one->limit(most_body);
        on_join(one, who.substr(strlen(join_prefix)), first);
    });
}

void Daemon::attach_child(const std::shared_ptr<Channel> &channel, uint32_t child)
{
    children_[child] = channel;
    Channel *raw = channel.get();
    channel->on_frame = [this, child, raw](FrameKind kind, std::string_view body) {
        if (!node_ || children_.size() <= child || children_[child].get() != raw)
            return;
        const auto *bytes = reinterpret_cast<const uint8_t *>(body.data());
        if (kind != FrameKind::bookmark || !node_->from_child(child, {bytes, body.size()}))
            raw->refuse();
        progress();
    };
    channel->on_end = [this, child, raw] {
        if (!node_ || children_.size() <= child || children_[child].get() != raw)
            return;
        node_->lost_child(child);
        progress();
    };
    check_placed();
}

void Daemon::place(const Message &message)
{
    generation_ = message.fields.at("generation");
    child_daemons_ = message.fields.at("daemons").get<std::vector<uint32_t>>();
    child_ranks_ = message.fields.at("ranks").get<std::vector<uint32_t>>();
    bookmark::Routes routes;
    routes.children = static_cast<uint32_t>(child_daemons_.size() + child_ranks_.size());
    for (uint32_t child = 0; child < routes.children; child++)
        routes.is_rank.push_back(child >= child_daemons_.size());
    for (const json &run : message.fields.at("runs")) {
        if (run.at(2) < routes.children)
            routes.runs.push_back({run.at(0), run.at(1), run.at(2)});
    }
    const bool root = !message.fields.contains("parent");
    detach();
    children_.assign(child_daemons_.size(), nullptr);
    const json keys = message.fields.value("keys", json::array());
    for (uint32_t child = 0; child < child_daemons_.size() && child < keys.size(); child++) {
        if (const std::optional<Key> key = key_from_hex(keys[child]))
            child_keys_[child_name(generation_, child_daemons_[child])] = {child, *key};
    }
    placed_ = false;
    node_ = std::make_unique<bookmark::Node>(
        bookmark::Node::Config{.routes = std::move(routes), .root = root},
        static_cast<bookmark::Node::Output &>(*this));
    for (auto &[number, rank] : ranks_)
        rank.child.reset();
    for (size_t i = 0; i < child_ranks_.size(); i++) {
        const auto child = static_cast<uint32_t>(child_daemons_.size() + i);
        if (const auto at = ranks_.find(child_ranks_[i]); at != ranks_.end())
            at->second.child = child;
        else
            node_->lost_child(child);
    }
    has_parent_ = root;
    if (!root) {
        const json &parent = message.fields.at("parent");
        to_parent_ = {.addresses = parent.at("addresses").get<std::vector<std::string>>(),
                      .port = parent.at("port"),
                      .key = key_from_hex(parent.at("key")).value_or(random_key()),
                      .index = message.fields.at("index")};
        connect_parent();
    }
    check_placed();
}

// Closes the connections of the previous tree.
void Daemon::detach()
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

void Daemon::connect_parent()
{
    Result<Fd> fd = connect_tcp(to_parent_.addresses, to_parent_.port);
    if (!fd) {
        try_parent_again(fd.error().text());
        return;
    }
    parent_ = Channel::make(
        loop_, std::move(*fd),
        std::make_unique<Tls>(child_name(generation_, to_parent_.index), to_parent_.key));
    parent_->on_end = [this] {
        if (!has_parent_)
            try_parent_again("the daemon above it does not take it");
        else if (node_)
            node_->lost_parent();
    };
    parent_->on_secure = [this] {
        parent_->on_frame = [this](FrameKind kind, std::string_view body) {
            const auto *bytes = reinterpret_cast<const uint8_t *>(body.data());
            if (kind != FrameKind::bookmark || (node_ && !node_->from_parent({bytes, body.size()})))
                parent_->refuse();
        };
        has_parent_ = true;
        check_placed();
    };
}

void Daemon::try_parent_again(const std::string &error)
{
    if (to_parent_.tries++ >= most_tries) {
        report_(Message(Type::unplaced, {{"error", error}}));
        return;
    }
    const int64_t wait = std::min(first_try_ms << std::min(to_parent_.tries, 6), longest_try_ms);
    loop_.after(wait, [this, generation = generation_] {
        if (generation == generation_ && !has_parent_)
            connect_parent();
    });
}

void Daemon::check_placed()
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

void Daemon::to_child(uint32_t child, bookmark::Bytes message)
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
    if (const auto at = ranks_.find(child_ranks_[index]);
        at != ranks_.end() && at->second.child == child)
        at->second.channel->send(FrameKind::bookmark, body);
}

void Daemon::to_parent(bookmark::Bytes message)
{
    if (parent_)
        parent_->send(FrameKind::bookmark,
                      {reinterpret_cast<const char *>(message.data()), message.size()});
}

void Daemon::state(const bookmark::StateEntry &state)
{
    if (on_state)
        on_state(state);
}

void Daemon::wanted()
{
    if (on_wanted)
        on_wanted();
}

} // namespace cryo::coord
