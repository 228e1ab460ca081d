// SPDX-License-Identifier: Apache-2.0
// What a large job waits for, in words: where nothing happens any more, they name what keeps it
// back.
#include "large_job.hpp"

#include <fmt/format.h>

namespace cryo::coord::sim {

namespace {

constexpr size_t most_named = 8;

} // namespace

// The first daemon may be busy, or stand still itself: its answer is there at the next look.
void LargeJob::ask_first()
{
    if (std::exchange(first_.is_asked, true)) {
        first_.waits_for = "does not answer";
        return;
    }
    root_.put([this] {
        const bookmark::Node *node = coordinator_->local().node();
        First now = {.waits_for = coordinator_->waits_for(),
                     .awaited = node != nullptr ? node->awaited() : std::vector<uint32_t>()};
        from_root_.put([this, now = std::move(now)] { first_ = now; });
    });
}

std::string LargeJob::waits_for()
{
    size_t answers = 0;
    for (const auto &node : nodes_) {
        if (node && node->daemon->node() != nullptr)
            answers += node->daemon->node()->awaited().size();
    }
    std::string text = fmt::format("the first daemon: {}", first_.waits_for);
    if (const std::string names = nodes_without(&Node::has_joined); !names.empty())
        text += "; not accepted by it: " + names;
    else if (const std::string unplaced = nodes_without(&Node::is_placed); !unplaced.empty())
        text += "; not placed in the tree: " + unplaced;
    for (uint32_t number = 1; number < nodes_.size(); number++) {
        if (*nodes_[number]->is_stopped)
            text += fmt::format("; stopped: n{}", number);
    }
    if (answers != 0 || !first_.awaited.empty())
        text +=
            fmt::format("; the other daemons wait for {} answers: {}", answers, keeps_tree_back());
    ask_first();
    return text;
}

// The first few of them, and how many there are.
std::string LargeJob::nodes_without(bool Node::*what) const
{
    std::string names;
    size_t count = 0;
    for (uint32_t number = 1; number < nodes_.size(); number++) {
        if ((*nodes_[number]).*what)
            continue;
        if (count++ < most_named)
            names += fmt::format("{}n{}", names.empty() ? "" : ", ", number);
    }
    return count <= most_named ? names : fmt::format("{} and {} more", names, count - most_named);
}

std::vector<uint32_t> LargeJob::children_of(uint32_t node) const
{
    std::vector<uint32_t> children;
    for (uint32_t number = 1; number < nodes_.size(); number++) {
        if (nodes_[number]->above == node)
            children.push_back(number);
    }
    return children;
}

// From the first daemon down to whom the others wait for. Children are daemons, and then ranks.
std::string LargeJob::keeps_tree_back() const
{
    uint32_t at = 0;
    std::vector<uint32_t> awaited = first_.awaited;
    while (!awaited.empty()) {
        const std::vector<uint32_t> below = children_of(at);
        const uint32_t child = awaited.front();
        if (child >= below.size())
            return fmt::format("n{} has to hear more of rank {}", at,
                               rank_of(at, child - static_cast<uint32_t>(below.size())));
        at = below[child];
        if (*nodes_[at]->is_stopped)
            return fmt::format("n{} does nothing", at);
        const bookmark::Node *node = nodes_[at]->daemon->node();
        awaited = node != nullptr ? node->awaited() : std::vector<uint32_t>();
    }
    return fmt::format("n{} has answered, or has nothing to answer yet", at);
}

} // namespace cryo::coord::sim
