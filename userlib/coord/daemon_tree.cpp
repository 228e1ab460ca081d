// SPDX-License-Identifier: Apache-2.0
// A daemon's place in the tree of daemons: who is above and below it, and how it knows them.
#include "coord/daemon.hpp"

#include "coord/auth.hpp"

#include <algorithm>
#include <sys/socket.h>

namespace cryo::coord {

using nlohmann::json;

void Daemon::accept_daemon()
{
    Fd fd(accept4(tcp_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd)
        return;
    const std::shared_ptr<Channel> channel = Channel::make(loop_, std::move(fd));
    meet(channel);
    Channel *at = channel.get();
    expect_proof(channel, job_.secret, [this, at] {
        at->on_message(Speaker::newcomer, [this, at](const Message &first) {
            const std::shared_ptr<Channel> one = at->shared_from_this();
            strangers_.erase(one);
            introduced(one, first);
        });
    });
}

void Daemon::introduced(const std::shared_ptr<Channel> &channel, const Message &first)
{
    if (first.type == Type::child)
        attach_child(channel, first.fields.at("generation"), first.fields.at("index"));
    else if (on_join)
        on_join(channel, first);
    else
        channel->close();
}

void Daemon::attach_child(const std::shared_ptr<Channel> &channel, uint64_t generation,
                          uint32_t index)
{
    const auto at = std::find(child_daemons_.begin(), child_daemons_.end(), index);
    if (generation != generation_ || at == child_daemons_.end()) {
        early_[{generation, index}] = channel;
        return;
    }
    const auto child = static_cast<uint32_t>(at - child_daemons_.begin());
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
    children_.assign(child_daemons_.size(), nullptr);
    parent_.reset();
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
    const auto waiting = std::exchange(early_, {});
    for (const auto &[where, channel] : waiting) {
        if (where.first >= generation_)
            attach_child(channel, where.first, where.second);
    }
    if (!root)
        connect_parent(message.fields.at("parent"), message.fields.at("index"));
    check_placed();
}

void Daemon::connect_parent(const json &parent, uint32_t index)
{
    Result<Fd> fd =
        connect_tcp(parent.at("addresses").get<std::vector<std::string>>(), parent.at("port"));
    if (!fd) {
        report_(Message(Type::unplaced, {{"error", fd.error().text()}}));
        return;
    }
    parent_ = Channel::make(loop_, std::move(*fd));
    parent_->on_end = [this] {
        if (node_)
            node_->lost_parent();
    };
    const Message first(Type::child, {{"generation", generation_}, {"index", index}});
    give_proof(parent_, job_.secret, [this, first] {
        parent_->on_frame = [this](FrameKind kind, std::string_view body) {
            const auto *bytes = reinterpret_cast<const uint8_t *>(body.data());
            if (kind != FrameKind::bookmark || (node_ && !node_->from_parent({bytes, body.size()})))
                parent_->refuse();
        };
        parent_->send(first);
        has_parent_ = true;
        check_placed();
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
