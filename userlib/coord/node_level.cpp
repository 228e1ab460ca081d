// SPDX-License-Identifier: Apache-2.0
#include "coord/node_level.hpp"

#include "base/printable.hpp"
#include "redundancy/description.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

NodeLevel::NodeLevel(Loop &loop, std::string job, std::string node, std::function<void()> retired)
    : loop_(loop), job_(std::move(job)), node_(std::move(node)), retired_(std::move(retired))
{}

Result<void> NodeLevel::begin(const json &wanted)
{
    now_.reset();
    if (wanted.is_null())
        return {};
    Now now;
    now.base = base_of_node(wanted.at("directory"), node_);
    now.keep = wanted.at("keep");
    now.rate = wanted.at("rate");
    now.room = room_in(now.base);
    std::string why = why_not(now);
    if (why.empty()) {
        Result<LocalLevel> level =
            LocalLevel::begin(now.base, wanted.at("name").get<std::string>(), job_);
        if (level)
            now.level.emplace(std::move(*level));
        else
            why = level.error().text();
    }
    if (now.level && wanted.value("alone", false)) {
        Result<void> alone = now.level->claim(node_);
        if (!alone && alone.error().code() == EEXIST)
            return alone;
        if (!alone) {
            why = alone.error().text();
            now.level.reset();
        }
    }
    if (!why.empty())
        now.trouble = printable_message(
            fmt::format("the images of node {} went straight to the snapshot: {}", node_, why));
    now_ = std::move(now);
    return {};
}

const LocalLevel *NodeLevel::level() const
{
    return now_ && now_->level ? &*now_->level : nullptr;
}

// After a failure of its disk the next checkpoint does without, so that it is there with certainty;
// and so do others, as long as the disk has no more room than it had. "": the disk may be used.
std::string NodeLevel::why_not(const Now &now)
{
    const bool is_next = std::exchange(blame_.fresh, false);
    if (now.base != blame_.base || (!is_next && has_more_room(now.room, blame_.room)))
        blame_ = {};
    return blame_.why;
}

std::string NodeLevel::make(uint32_t rank)
{
    if (!now_ || !now_->level)
        return "";
    Result<std::string> made = now_->level->make_rank(rank);
    if (made)
        return *made;
    now_->trouble = printable_message(fmt::format(
        "the image of rank {} went straight to the snapshot: {}", rank, made.error().text()));
    return "";
}

std::string NodeLevel::take_trouble()
{
    return now_ ? std::exchange(now_->trouble, {}) : "";
}

void NodeLevel::blame(const Taken &taken)
{
    if (now_ && is_trouble_of_the_disk(taken.code))
        blame_ = {.why = fmt::format("in an earlier checkpoint, {}", taken.error),
                  .base = now_->base,
                  .room = now_->room,
                  .fresh = true};
}

// Removing may take long, and ranks may be waiting for words of this daemon.
void NodeLevel::end(bool committed, bool redundant)
{
    if (!now_)
        return;
    Now now = std::move(*now_);
    now_.reset();
    if (now.level && !redundant)
        static_cast<void>(now.level->directory().remove(redundancy::parity_name));
    if (committed && now.level && now.level->commit())
        last_ = std::move(now.level);
    now.level.reset();
    retiring_ = std::make_unique<Aside>(
        loop_,
        [base = now.base, job = job_, keep = now.keep] {
            retire_levels(base, job, keep);
            return Result<void>();
        },
        [this](const Result<void> &) {
            retiring_.reset();
            retired_();
        });
}

} // namespace cryo::coord
