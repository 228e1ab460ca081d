// SPDX-License-Identifier: Apache-2.0
// The commit of a snapshot, and what becomes of the job then.
#include "coord/coordinator.hpp"
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>

namespace cryo::coord {

using nlohmann::json;

// Runs beside the loop: ranks may be waiting, and must get signs of life meanwhile.
void Coordinator::commit()
{
    now_->stage = Stage::finishing;
    say("finished locally");
    std::vector<SnapshotImage> images;
    for (const auto &[rank, image] : now_->images)
        images.push_back(image);
    now_->commit = std::make_unique<Aside>(
        loop_, [this, images] { return write_commit(images); },
        [this](const Result<void> &done) { committed(done); });
}

// Runs in a thread of its own, which owns the writer and `kept_all`, and reads the request.
Result<void> Coordinator::write_commit(const std::vector<SnapshotImage> &images)
{
    Result<void> done = now_->writer->commit(images);
    const unsigned keep = now_->request.value("keep", 0U);
    if (!done || keep == 0)
        return done;
    if (Result<void> kept = now_->writer->keep(keep); !kept)
        now_->kept_all =
            fmt::format("older snapshots could not be removed: {}", kept.error().text());
    return done;
}

void Coordinator::committed(const Result<void> &done)
{
    now_->commit.reset();
    if (now_->left_out > 0)
        now_->notices.push_back(
            fmt::format("{} more notices of ranks are left out", now_->left_out));
    if (!now_->kept_all.empty())
        now_->notices.push_back(now_->kept_all);
    if (!refused_.empty())
        now_->notices.push_back("not in the snapshot: " + refused_);
    if (!done) {
        give_up(done.error().text(), done.error().code());
        return;
    }
    now_->writer->unlock(); // before any command is told of it
    const std::string wanted = now_->request.value("after", "none");
    // Ranks that have resumed meanwhile are past the saved state. They are not ended.
    const std::optional<std::string> silent =
        wanted != "none" ? silence() : std::optional<std::string>();
    const std::string after = silent ? "none" : wanted;
    tell_all(Message(Type::finish, {{"after", after}}));
    say(after == "stop" ? "stopped" : "established");
    if (silent)
        to_watchers(end_of(Error(ETIMEDOUT, fmt::format("{} is there, but the job goes on: {}",
                                                        now_->writer->path(), *silent))));
    else
        to_watchers(end_of_snapshot());
    watchers_.clear();
    if (after == "term")
        kill(job_.launcher, SIGTERM);
    if (wanted == "none" || ending_) {
        end_checkpoint();
    } else { // until the tree has finished it
        now_->writer.reset();
        now_->stage = Stage::held;
    }
}

Message Coordinator::end_of_snapshot() const
{
    uint64_t bytes = 0;
    for (const auto &[rank, image] : now_->images)
        bytes += image.bytes;
    const std::chrono::duration<double> took = Clock::now() - now_->begun;
    return Message(Type::end,
                   {{"ok", true},
                    {"reference", std::filesystem::path(now_->writer->path()).filename()},
                    {"path", now_->writer->path()},
                    {"seq", now_->writer->seq()},
                    {"ranks", now_->ranks.size()},
                    {"bytes", bytes},
                    {"seconds", took.count()},
                    {"longest_stop_ns", now_->longest_stop},
                    {"notices", now_->notices}});
}

} // namespace cryo::coord
