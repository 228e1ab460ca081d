// SPDX-License-Identifier: Apache-2.0
// A daemon's part in the level of the nodes' own directories (docs/stores.md). What goes wrong with
// it is told, and stops no checkpoint that can do without.
#include "base/printable.hpp"
#include "coord/daemon.hpp"

#include <fmt/format.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

std::optional<Daemon::LocalTask> Daemon::begin_local(const json &wanted)
{
    LocalTask local;
    local.base = wanted.at("directory");
    local.keep = wanted.at("keep");
    local.rate = wanted.at("rate");
    local.room = room_in(local.base);
    std::string why = why_not_local(local);
    if (why.empty()) {
        Result<LocalLevel> level =
            LocalLevel::begin(local.base, wanted.at("name").get<std::string>(), job_.id);
        if (level)
            local.level.emplace(std::move(*level));
        else
            why = level.error().text();
    }
    if (!why.empty())
        local.trouble = printable_message(
            fmt::format("the images of node {} went straight to the snapshot: {}", name_, why));
    return local;
}

// After a failure of its disk the next checkpoint does without, so that it is there with certainty;
// and so do others, as long as the disk has no more room than it had. "": the disk may be used.
std::string Daemon::why_not_local(const LocalTask &local)
{
    const bool is_next = std::exchange(blame_.fresh, false);
    if (local.base != blame_.base || (!is_next && has_more_room(local.room, blame_.room)))
        blame_ = {};
    return blame_.why;
}

// The directory that a rank's image is written to first; "": there is none.
std::string Daemon::make_local(uint32_t rank)
{
    if (!task_->local || !task_->local->level)
        return "";
    Result<std::string> made = task_->local->level->make_rank(rank);
    if (made)
        return *made;
    task_->local->trouble = printable_message(fmt::format(
        "the image of rank {} went straight to the snapshot: {}", rank, made.error().text()));
    return "";
}

// The image is complete there, and is being copied: a rank that had to wait for it may go on.
void Daemon::image_is_local(uint32_t number)
{
    const auto orphan = orphans_.find(number);
    const auto at = orphan != orphans_.end() ? orphan : ranks_.find(number);
    if (at == ranks_.end() || !task_)
        return;
    Rank &rank = at->second;
    rank.stored = true;
    const bool was_frozen = std::exchange(rank.frozen, true);
    const Message stored(Type::local, {{"checkpoint", task_->number}, {"rank", number}});
    if (!was_frozen) {
        let_go_on(rank);
        report_(Message(Type::cut, {{"checkpoint", task_->number}, {"rank", number}}));
    }
    report_(stored);
}

void Daemon::blame_local(const Rank &rank, const Taken &taken)
{
    if (!rank.local.empty() && !rank.stored && is_trouble_of_the_disk(taken.code))
        blame_ = {.why = fmt::format("in an earlier checkpoint, {}", taken.error),
                  .base = task_->local->base,
                  .room = task_->local->room,
                  .fresh = true};
}

// The task is over. Removing may take long, and ranks may be waiting for words of this daemon.
void Daemon::end_local(bool committed)
{
    if (!task_ || !task_->local)
        return;
    LocalTask &local = *task_->local;
    if (committed && local.level && local.level->commit())
        last_level_ = std::move(local.level);
    local.level.reset();
    retiring_ = std::make_unique<Aside>(
        loop_,
        [base = local.base, job = job_.id, keep = local.keep] {
            retire_levels(base, job, keep);
            return Result<void>();
        },
        [this](const Result<void> &) { local_is_retired(); });
}

// A checkpoint that was to be prepared meanwhile is prepared now.
void Daemon::local_is_retired()
{
    retiring_.reset();
    if (const std::optional<Message> next = std::exchange(to_prepare_, std::nullopt))
        prepare(*next);
}

} // namespace cryo::coord
