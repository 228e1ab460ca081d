// SPDX-License-Identifier: Apache-2.0
#include "bookmark/node.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>

namespace cryo::bookmark {

Node::Node(Config config, Output &output)
    : config_(std::move(config)), output_(output), children_(config_.routes.children),
      clocks_(config_.most_communicators), counts_(config_.routes.children)
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
    if (!clocks_.has_room_for(m.clocks))
        return Error(EPROTO, fmt::format("child {}: has communicators without end", child));
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
        counts_.hear(child, m);
        check_ready();
        break;
    case MessageType::drained:
        children_[child].drained = true;
        check_drained();
        break;
    case MessageType::state:
        pass_state(m.state);
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
        counts_.told_by_parent();
        on_targets(m);
        break;
    case MessageType::need:
        counts_.told_by_parent();
        pass_need_down(m, {});
        break;
    case MessageType::unneed:
        pass_need_down(m, {});
        break;
    case MessageType::expected:
        counts_.expect(m.counts);
        send_expected();
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
    clocks_.clear();
    counts_ = CountsBelow(config_.routes.children);
    early_.clear();
    rounds_ = 0;
    raises_ = 0;
    drained_ = false;
    for (Child &c : children_)
        c = Child{.lost = c.lost};
    to_all(message(MessageType::request));
    for (uint32_t i = 0; i < children_.size(); i++)
        if (children_[i].lost)
            lost_child(i);
}

void Node::on_clocks(uint32_t child, const Message &m)
{
    for (const ClockEntry &e : m.clocks)
        clocks_.hear(child, e);
    children_[child].clocks = true;
    if (std::all_of(children_.begin(), children_.end(), [](const Child &c) { return c.clocks; }))
        clocks_complete();
}

void Node::clocks_complete()
{
    stage_ = Stage::running;
    rounds_++;
    Message above = message(MessageType::clocks);
    ClocksBelow::Targets targets;
    clocks_.find_homes(config_.root, above.clocks, targets);
    if (!config_.root)
        up(above);
    send_targets(std::move(targets));
    for (const Message &m : std::exchange(early_, {}))
        on_need(m);
    check_ready();
}

void Node::send_targets(ClocksBelow::Targets targets)
{
    for (auto &[child, clocks] : targets) {
        Message m = message(MessageType::targets);
        m.clocks = std::move(clocks);
        tell(child, m);
    }
}

void Node::on_raise(uint32_t child, const Message &m)
{
    raises_++;
    Message above = message(MessageType::raise);
    ClocksBelow::Targets targets;
    for (const ClockEntry &e : m.clocks) {
        clocks_.hear(child, e);
        if (stage_ == Stage::clocks)
            continue; // this node's own `clocks` message will include it
        // A communicator first reported by a raise has its home at the root.
        if (clocks_.is_home(e.comm) || config_.root) {
            clocks_.add_targets(e.comm, targets);
            if (e.heard)
                tell_wanted(child, e.comm);
        } else {
            above.clocks.push_back(e);
        }
    }
    send_targets(std::move(targets));
    if (!above.clocks.empty())
        up(above);
    if (config_.root && raises_ > config_.most_raises)
        abandon({.rank = 0, .doing = Doing::running});
}

void Node::on_targets(const Message &m)
{
    ClocksBelow::Targets targets;
    for (const ClockEntry &e : m.clocks) {
        clocks_.raise(e.comm, e.high);
        clocks_.add_targets(e.comm, targets);
    }
    send_targets(std::move(targets));
    check_ready();
}

void Node::on_need(const Message &m)
{
    if (m.need.comm) {
        if (!config_.root && !clocks_.is_home(m.need.comm)) {
            up(m);
        } else if (clocks_.knows(m.need.comm)) {
            clocks_.note_need(m.type, m.need);
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

// The member that has only now created the communicator may be the one a rank waits for.
void Node::tell_wanted(uint32_t child, CommId comm)
{
    for (const Need &need : clocks_.needs(comm)) {
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
    } else {
        for (const uint32_t to : clocks_.children_of(m.need.comm))
            pass(to);
    }
    check_ready();
}

void Node::check_ready()
{
    if (stage_ != Stage::running || !counts_.is_report_due())
        return;
    Message above = message(MessageType::ready);
    counts_.report(config_.routes, above);
    if (config_.root)
        send_expected();
    else
        up(above);
}

void Node::send_expected()
{
    stage_ = Stage::cut;
    rounds_++;
    std::vector<Message> messages(children_.size(), message(MessageType::expected));
    counts_.take(config_.routes, messages);
    for (uint32_t i = 0; i < children_.size(); i++)
        down(i, messages[i]);
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
    states_ = 0;
    to_all(message(MessageType::inquire));
    // A rank that has not answered the request will not answer this either: answer for it.
    for (const auto &run : config_.routes.runs) {
        const Child &c = children_[run.child];
        if (!config_.routes.is_rank[run.child] || c.clocks)
            continue;
        pass_state({.rank = run.first, .doing = c.lost ? Doing::gone : Doing::silent});
    }
}

std::vector<uint32_t> Node::awaited() const
{
    std::vector<uint32_t> awaited;
    for (uint32_t i = 0; i < children_.size(); i++) {
        if ((stage_ == Stage::clocks && !children_[i].clocks) ||
            (stage_ == Stage::running && counts_.is_behind(i)) ||
            (stage_ == Stage::cut && !children_[i].drained))
            awaited.push_back(i);
    }
    return awaited;
}

void Node::pass_state(const StateEntry &state)
{
    if (states_ >= config_.most_states)
        return;
    states_++;
    if (config_.root) {
        output_.state(state);
        return;
    }
    Message answer = message(MessageType::state);
    answer.state = state;
    up(answer);
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
    counts_.told(child);
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
