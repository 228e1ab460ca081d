// SPDX-License-Identifier: Apache-2.0
#include "bookmark/node.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>

namespace cryo::bookmark {

Node::Node(Config config, Output &output)
    : config_(std::move(config)), output_(output), children_(config_.routes.children)
{}

Result<void> Node::from_child(uint32_t child, Bytes bytes)
{
    Message m(MessageType::state, 0);
    if (!unpack(bytes, m))
        return Error(EPROTO, fmt::format("child {}: {} bytes that are no message of the bookmark "
                                         "exchange; is it of another version?",
                                         child, bytes.size()));
    if (m.type == MessageType::want) {
        // A rank that has not passed the checkpoint under way will be saved by it: no new one.
        const bool under_way = outcome_ == Outcome::working && m.epoch != epoch_;
        if (!config_.root)
            up(m);
        else if (!under_way)
            output_.wanted();
        return {};
    }
    if (m.epoch != epoch_ || stage_ == Stage::idle || stage_ == Stage::over)
        return {}; // belongs to a checkpoint that is over
    if (!has_room_for(m))
        return Error(EPROTO, fmt::format("child {}: has communicators without end", child));
    Child &c = children_[child];
    switch (m.type) {
    case MessageType::clocks:
        on_clocks(child, m);
        break;
    case MessageType::raise:
        on_raise(child, m);
        break;
    case MessageType::need:
    case MessageType::unneed:
        if (stage_ == Stage::clocks)
            early_.push_back(std::move(m));
        else
            on_need(m);
        break;
    case MessageType::ready:
        c.ready = m.acks;
        c.sent.clear();
        for (const CountEntry &e : m.counts)
            c.sent[e.rank] += e.tally;
        check_ready();
        break;
    case MessageType::drained:
        c.drained = true;
        check_drained();
        break;
    case MessageType::state:
        if (config_.root)
            output_.state(m.state);
        else
            up(m);
        break;
    case MessageType::abandon:
        if (config_.root)
            abandon(m.state);
        else
            up(m);
        break;
    default:
        return Error(EPROTO, fmt::format("child {}: message {} goes down the tree, not up", child,
                                         unsigned(m.type)));
    }
    return {};
}

Result<void> Node::from_parent(Bytes bytes)
{
    Message m(MessageType::state, 0);
    if (!unpack(bytes, m))
        return Error(EPROTO, fmt::format("{} bytes from the parent that are no message of the "
                                         "bookmark exchange; is it of another version?",
                                         bytes.size()));
    if (m.type == MessageType::request) {
        begin(m.epoch);
        return {};
    }
    if (m.epoch != epoch_ || stage_ == Stage::idle || stage_ == Stage::over)
        return {};
    switch (m.type) {
    case MessageType::targets:
        acks_++;
        on_targets(m);
        break;
    case MessageType::need:
        acks_++;
        pass_need_down(m, {});
        break;
    case MessageType::unneed:
        pass_need_down(m, {});
        break;
    case MessageType::expected:
        on_expected(m);
        break;
    case MessageType::go:
    case MessageType::abandon:
        end(m);
        break;
    case MessageType::inquire:
        inquire();
        break;
    default:
        return Error(EPROTO,
                     fmt::format("message {} goes up the tree, not down", unsigned(m.type)));
    }
    return {};
}

Result<uint32_t> Node::request()
{
    if (stage_ != Stage::idle && stage_ != Stage::over)
        return Error(EBUSY, "a checkpoint is under way; wait for it");
    for (uint32_t i = 0; i < children_.size(); i++)
        if (children_[i].lost)
            return Error(ESRCH, "part of the job is gone; it cannot be saved any more");
    begin(epoch_ + 1);
    return epoch_;
}

void Node::begin(uint32_t epoch)
{
    epoch_ = epoch;
    stage_ = Stage::clocks;
    outcome_ = Outcome::working;
    known_.clear();
    early_.clear();
    due_.clear();
    acks_ = rounds_ = 0;
    raises_ = 0;
    drained_ = false;
    ready_for_.reset();
    for (Child &c : children_) {
        bool lost = c.lost;
        c = Child{};
        c.lost = lost;
    }
    to_all(message(MessageType::request));
    for (uint32_t i = 0; i < children_.size(); i++)
        if (children_[i].lost)
            lost_child(i);
}

// A child that makes communicators up would otherwise take all memory.
bool Node::has_room_for(const Message &m) const
{
    const uint64_t most = config_.most_communicators;
    if (known_.size() + m.clocks.size() <= most)
        return true;
    const auto fresh = std::count_if(m.clocks.begin(), m.clocks.end(), [&](const ClockEntry &e) {
        return known_.count(e.comm) == 0;
    });
    return known_.size() + static_cast<uint64_t>(fresh) <= most;
}

void Node::hear(uint32_t child, const ClockEntry &e)
{
    Known &known = known_[e.comm];
    known.members = e.members;
    known.heard += e.heard;
    known.high = std::max(known.high, e.high);
    auto at = std::find_if(known.below.begin(), known.below.end(),
                           [&](const Member &m) { return m.child == child; });
    if (at == known.below.end())
        known.below.push_back({child, e.low});
    else if (e.heard)
        at->low = std::min(at->low, e.low);
}

void Node::on_clocks(uint32_t child, const Message &m)
{
    for (const ClockEntry &e : m.clocks)
        hear(child, e);
    children_[child].clocks = true;
    if (std::all_of(children_.begin(), children_.end(), [](const Child &c) { return c.clocks; }))
        clocks_complete();
}

void Node::clocks_complete()
{
    stage_ = Stage::running;
    rounds_++;
    Message above = message(MessageType::clocks);
    std::map<uint32_t, Message> targets;
    for (auto &[id, known] : known_) {
        uint64_t low = known.high;
        for (const Member &m : known.below)
            low = std::min(low, m.low);
        known.home = config_.root || known.heard == known.members;
        if (known.home)
            raise_low(known, id, targets);
        else
            above.clocks.push_back({.comm = id,
                                    .members = known.members,
                                    .heard = known.heard,
                                    .low = low,
                                    .high = known.high});
    }
    if (!config_.root)
        up(above);
    send_targets(targets);
    for (const Message &m : std::exchange(early_, {}))
        on_need(m);
    check_ready();
}

// Sends targets to each child that may have a member below the highest clock.
void Node::raise_low(const Known &known, CommId id, std::map<uint32_t, Message> &targets) const
{
    for (const Member &m : known.below) {
        if (m.low >= known.high)
            continue;
        auto at = targets.try_emplace(m.child, MessageType::targets, epoch_).first;
        at->second.clocks.push_back(
            {.comm = id, .members = known.members, .heard = 0, .low = 0, .high = known.high});
    }
}

void Node::send_targets(std::map<uint32_t, Message> &targets)
{
    for (const auto &[child, m] : targets)
        tell(child, m);
}

void Node::on_raise(uint32_t child, const Message &m)
{
    raises_++;
    Message above = message(MessageType::raise);
    std::map<uint32_t, Message> targets;
    for (const ClockEntry &e : m.clocks) {
        hear(child, e);
        const Known &known = known_[e.comm];
        if (stage_ == Stage::clocks)
            continue; // this node's own `clocks` message will include it
        // A communicator first reported by a raise has its home at the root.
        if (known.home || config_.root) {
            raise_low(known, e.comm, targets);
            if (e.heard)
                tell_wanted(child, known);
        } else {
            above.clocks.push_back(e);
        }
    }
    send_targets(targets);
    if (!above.clocks.empty())
        up(above);
    if (config_.root && raises_ > config_.most_raises)
        abandon({.rank = 0, .doing = Doing::running});
}

void Node::on_targets(const Message &m)
{
    std::map<uint32_t, Message> targets;
    for (const ClockEntry &e : m.clocks) {
        Known &known = known_[e.comm];
        known.high = std::max(known.high, e.high);
        raise_low(known, e.comm, targets);
    }
    send_targets(targets);
    check_ready();
}

void Node::on_need(const Message &m)
{
    if (m.need.comm) {
        auto at = known_.find(m.need.comm);
        if (!config_.root && (at == known_.end() || !at->second.home)) {
            up(m);
        } else if (at != known_.end()) {
            keep_need(at->second, m);
            pass_need_down(m, {});
        }
        return;
    }
    uint32_t child = config_.routes.child_of(m.need.to);
    if (child != Routes::kElsewhere)
        pass_need_down(m, child);
    else if (!config_.root)
        up(m);
}

void Node::keep_need(Known &known, const Message &m) const
{
    if (m.type == MessageType::need)
        known.wanted[m.need.from] = m.need;
    else
        known.wanted.erase(m.need.from);
}

// The member that has only now created the communicator may be the one a rank waits for.
void Node::tell_wanted(uint32_t child, const Known &known)
{
    for (const auto &[from, need] : known.wanted) {
        Message m = message(MessageType::need);
        m.need = need;
        tell(child, m);
    }
}

void Node::pass_need_down(const Message &m, std::optional<uint32_t> child)
{
    auto pass = [&](uint32_t to) {
        if (m.type == MessageType::need)
            tell(to, m);
        else
            down(to, m);
    };
    if (child) {
        pass(*child);
    } else if (m.need.comm == 0) {
        if (uint32_t to = config_.routes.child_of(m.need.to); to != Routes::kElsewhere)
            pass(to);
    } else if (auto at = known_.find(m.need.comm); at != known_.end()) {
        for (const Member &member : at->second.below)
            pass(member.child);
    }
    check_ready();
}

void Node::check_ready()
{
    // A `ready` that does not acknowledge everything sent to that child is out of date.
    if (stage_ != Stage::running || ready_for_ == acks_)
        return;
    for (const Child &c : children_)
        if (c.ready != c.told)
            return;
    ready_for_ = acks_;
    due_.clear();
    Message above = message(MessageType::ready);
    above.acks = acks_;
    std::map<WorldRank, Tally> outside;
    for (const Child &c : children_)
        for (const auto &[rank, tally] : c.sent)
            (config_.routes.child_of(rank) == Routes::kElsewhere ? outside : due_)[rank] += tally;
    for (const auto &[rank, tally] : outside)
        above.counts.push_back({rank, tally});
    if (config_.root)
        send_expected();
    else
        up(above);
}

void Node::on_expected(const Message &m)
{
    for (const CountEntry &e : m.counts)
        due_[e.rank] += e.tally;
    send_expected();
}

void Node::send_expected()
{
    stage_ = Stage::cut;
    rounds_++;
    std::vector<Message> messages(children_.size(), message(MessageType::expected));
    for (const auto &[rank, tally] : due_)
        if (uint32_t child = config_.routes.child_of(rank); child != Routes::kElsewhere)
            messages[child].counts.push_back({rank, tally});
    for (uint32_t i = 0; i < children_.size(); i++)
        down(i, messages[i]);
    due_.clear();
    check_drained();
}

void Node::check_drained()
{
    if (stage_ != Stage::cut || drained_ ||
        !std::all_of(children_.begin(), children_.end(), [](const Child &c) { return c.drained; }))
        return;
    drained_ = true;
    if (!config_.root) {
        up(message(MessageType::drained));
        return;
    }
    rounds_++;
    end(message(MessageType::go));
}

void Node::end(const Message &m)
{
    outcome_ = m.type == MessageType::go ? Outcome::done : Outcome::abandoned;
    reason_ = m.state;
    stage_ = Stage::over;
    to_all(m);
}

void Node::abandon(const StateEntry &reason)
{
    if (stage_ == Stage::idle || stage_ == Stage::over)
        return;
    Message m = message(MessageType::abandon);
    m.state = reason;
    end(m);
}

void Node::decline()
{
    if (stage_ != Stage::idle && stage_ != Stage::over)
        return;
    begin(epoch_ + 1);
    abandon({.rank = 0, .doing = Doing::failed});
}

void Node::inquire()
{
    if (stage_ == Stage::idle || stage_ == Stage::over)
        return;
    to_all(message(MessageType::inquire));
    // A rank that has not answered the request will not answer this either: answer for it.
    for (const auto &run : config_.routes.runs) {
        const Child &c = children_[run.child];
        if (!config_.routes.is_rank[run.child] || c.clocks)
            continue;
        StateEntry silent{.rank = run.first, .doing = c.lost ? Doing::gone : Doing::silent};
        if (config_.root) {
            output_.state(silent);
        } else {
            Message answer = message(MessageType::state);
            answer.state = silent;
            up(answer);
        }
    }
}

void Node::lost_child(uint32_t child)
{
    children_[child].lost = true;
    if (stage_ == Stage::idle || stage_ == Stage::over)
        return;
    StateEntry gone{.rank = 0, .doing = Doing::gone};
    for (const auto &run : config_.routes.runs)
        if (run.child == child)
            gone.rank = run.first;
    if (config_.root) {
        abandon(gone);
    } else {
        Message m = message(MessageType::abandon);
        m.state = gone;
        up(m);
    }
}

void Node::lost_parent()
{
    abandon({.rank = 0, .doing = Doing::gone}); // the ranks below continue without a checkpoint
}

void Node::tell(uint32_t child, const Message &m)
{
    children_[child].told++;
    down(child, m);
}

void Node::to_all(const Message &m)
{
    for (uint32_t i = 0; i < children_.size(); i++)
        if (!children_[i].lost)
            down(i, m);
}

void Node::down(uint32_t child, const Message &m)
{
    output_.to_child(child, pack(m, std::pmr::get_default_resource()));
}

void Node::up(const Message &m)
{
    output_.to_parent(pack(m, std::pmr::get_default_resource()));
}

} // namespace cryo::bookmark
