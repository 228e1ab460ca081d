// SPDX-License-Identifier: Apache-2.0
// What the first daemon waits for, in words: where nothing happens any more, they name the daemons
// that keep a job or its checkpoint back.
#include "coord/coordinator.hpp"

#include <fmt/format.h>
#include <utility>

namespace cryo::coord {

namespace {

// What a daemon says comes with what those above it in the tree say: of a whole subtree only the
// uppermost is named.
std::vector<uint32_t> uppermost(const std::set<uint32_t> &numbers, const Members &members)
{
    std::vector<uint32_t> all;
    for (const uint32_t number : numbers) {
        const Member *member = members.find(number);
        const bool is_below = member != nullptr && member->index && member->above != 0 &&
                              numbers.contains(member->above);
        if (!is_below)
            all.push_back(number);
    }
    return all;
}

} // namespace

std::string Coordinator::waits_for() const
{
    std::string text = fmt::format("{} nodes and {} of {} ranks are there", members_.all().size(),
                                   ranks_.all().size(), ranks_.expected());
    if (const Result<void> ready = ranks_.complete(); !ready)
        text += "; " + ready.error().text();
    return text + "; " + (now_ ? now_->waits_for() : "no checkpoint is under way");
}

std::string Checkpoint::waits_for() const
{
    static constexpr const char *states[] = {
        "is prepared",         "waits for all ranks to stand still",
        "waits for images",    "is committed",
        "waits for parity",    "waits until ranks may go on",
        "is being called off", "is over"};
    std::string text =
        fmt::format("checkpoint {} {}", number_, states[static_cast<size_t>(stage_)]);
    if (!awaited_.empty())
        text += fmt::format(", of which nodes have said nothing yet: {}",
                            around_.members.names(uppermost(awaited_, around_.members)));
    if (stage_ != Stage::pending && stage_ != Stage::running)
        return text;
    text += fmt::format("; {} of {} images are there", reports_.images_there(),
                        reports_.ranks().size());
    const std::vector<uint32_t> nodes = reports_.members_that_miss();
    if (stage_ == Stage::running && !nodes.empty())
        text += fmt::format(", and not yet those of all ranks on {}", around_.members.names(nodes));
    return text;
}

} // namespace cryo::coord
