// SPDX-License-Identifier: Apache-2.0
//
// The messages that ranks below a node have sent, as its children report them (`ready`). A report
// acknowledges what that child was told before; one that does not acknowledge all is out of date.
//
//     counts.told(child);                  // something that makes ranks run on
//     counts.hear(child, ready);
//     if (counts.is_report_due()) counts.report(routes, above);
//     counts.expect(entries);              // from ranks elsewhere
//     counts.take(routes, messages);       // what each child has to expect
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "bookmark/topology.hpp"
#include "bookmark/wire.hpp"

namespace cryo::bookmark {

class CountsBelow
{
  public:
    explicit CountsBelow(uint32_t children) : children_(children) {}

    void told(uint32_t child) { children_[child].told++; }
    void told_by_parent() { acks_++; }
    void hear(uint32_t child, const Message &ready);

    bool is_behind(uint32_t child) const // its report is not up to date
    {
        return children_[child].ready != children_[child].told;
    }
    // All children's reports are up to date, and the node's last one, if there was one, is not.
    bool is_report_due() const;
    // Messages to ranks elsewhere go into it; those to ranks below are kept.
    void report(const Routes &routes, Message &ready);
    void expect(std::span<const CountEntry> entries);
    // Adds what is due to `messages`, one for each child, and keeps nothing.
    void take(const Routes &routes, std::vector<Message> &messages);

  private:
    struct Child {
        uint32_t told = 0;             // messages that its report must acknowledge
        std::optional<uint32_t> ready; // messages that its last report has acknowledged
        std::map<WorldRank, Tally> sent;
    };

    std::vector<Child> children_;
    std::map<WorldRank, Tally> due_;   // to ranks below: from below, then from anywhere
    uint32_t acks_ = 0;                // messages from the parent
    std::optional<uint32_t> reported_; // of those, when the node last reported
};

} // namespace cryo::bookmark
