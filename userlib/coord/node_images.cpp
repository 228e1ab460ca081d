// SPDX-License-Identifier: Apache-2.0
#include "coord/node_images.hpp"

#include "base/directory.hpp"
#include "base/printable.hpp"
#include "coord/patience.hpp"
#include "coord/snapshot.hpp"
#include "coord/snapshot_removal.hpp"
#include "coord/tree_place.hpp"
#include "image/rank_groups.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <set>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

namespace {

constexpr int64_t grace_ms = 2000; // for mpirun to end its ranks
constexpr size_t most_token = 256;

uint64_t bytes_in(const std::string &directory)
{
    uint64_t bytes = 0;
    std::error_code ignored;
    std::error_code error; // without it, an unreadable directory would throw
    std::filesystem::directory_iterator entry(directory, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        const uint64_t size = entry->file_size(ignored);
        bytes += ignored ? 0 : size;
    }
    return bytes;
}

// Of the snapshot before, which lies beside the new one. No rank of that number and process id may
// have been in it.
std::string image_in(const std::string &new_snapshot, int previous, const NodeRank &rank)
{
    const std::filesystem::path before =
        std::filesystem::path(new_snapshot).parent_path() / std::to_string(previous);
    const std::string below = file_in_level(rank.number, rank.pid);
    for (const std::filesystem::path &path :
         {before / below, before / image::group_directory(rank.number) / below}) {
        struct stat status = {};
        if (lstat(path.c_str(), &status) == 0 || errno != ENOENT)
            return path;
    }
    return "";
}

// Only a daemon that sees the coordinator's token there writes to the same directory. On this node
// another user may have made one of that name, with a FIFO in it, or with a link to the right one
// that leads elsewhere a moment later: so it is read by descriptor, and from then on named without
// links.
std::optional<std::string> directory_with(const std::string &token, const std::string &path)
{
    const Result<Directory> directory = Directory::open(path);
    if (!directory)
        return std::nullopt;
    const Result<std::string> found = directory->read(token_name, most_token);
    if (!found || *found != token)
        return std::nullopt;
    std::error_code error;
    const std::string real =
        std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", directory->fd()), error);
    return error || !real.starts_with('/') ? path : real;
}

} // namespace

std::string NodeImages::Task::directory_of(uint32_t rank) const
{
    return fmt::format("{}/{}{}", directory, counted ? image::group_directory(rank) + "/" : "",
                       rank_directory(rank));
}

NodeImages::NodeImages(Loop &loop, const std::string &job, const std::string &node,
                       NodeRanks &ranks, const TreePlace &tree, const Ways &ways, Report report)
    : loop_(loop), node_(node), ranks_(ranks), tree_(tree), ways_(ways), report_(report),
      level_(loop, job, node,
             [this] { // a checkpoint that was to be prepared meanwhile is now
                 if (const std::optional<Message> next = std::exchange(to_prepare_, std::nullopt))
                     prepare(*next);
             }),
      set_(loop, std::move(report))
{}

void NodeImages::prepare(const Message &message)
{
    if (level_.is_retiring()) { // processes that take images are forked while there is one thread
        to_prepare_ = message;
        return;
    }
    Task task;
    task.number = message.fields.at("checkpoint");
    if (task.number <= cancelled_)
        return;
    task.directory = message.fields.at("directory");
    task.options = image_options(message.fields.at("options"));
    task.hold = message.fields.at("hold");
    task.counted = message.fields.value("counted", false);
    if (message.fields.contains("previous"))
        task.previous = message.fields.at("previous").get<int>();
    Message answer(Type::prepared, {{"checkpoint", task.number}});
    json local = message.fields.value("local", json());
    if (local.is_object() && ranks_.empty()) // it will have no images there
        local["alone"] = false;
    std::optional<std::string> seen = directory_with(message.fields.at("token"), task.directory);
    if (!seen) {
        answer.fields["error"] =
            fmt::format("node {} does not see {}; name a directory that all nodes "
                        "share (--where)",
                        node_, task.directory);
    } else if (Result<void> begun = level_.begin(local); !begun) {
        answer.fields["error"] = printable_message(begun.error().text());
    } else {
        task.directory = std::move(*seen);
        task.in_set = local.is_object() && local.value("alone", false);
        task_ = std::move(task);
        for (auto &[number, rank] : ranks_.all())
            rank.frozen = false; // as it was for the one before
    }
    report_(answer);
}

void NodeImages::cancel(uint64_t checkpoint)
{
    cancelled_ = std::max(cancelled_, checkpoint);
    for (auto &[number, rank] : ranks_.all()) {
        rank.imager.reset();
        answer(rank, false);
    }
    orphans_.clear();
    to_prepare_.reset();
    set_.end();
    level_.end(false, false);
    task_.reset();
}

// The snapshot is committed: held ranks resume, stop, or end.
void NodeImages::finish(const Message &message)
{
    if (task_ && message.fields.value("checkpoint", task_->number) != task_->number)
        return; // of an earlier one, and by a longer way
    const std::string after = message.fields.at("after");
    for (auto &[number, rank] : ranks_.all()) {
        if (after == "stop")
            kill(rank.pid, SIGSTOP);
        if (after != "term")
            answer(rank, true);
    }
    set_.end();
    level_.end(true, message.fields.value("redundant", false));
    task_.reset();
    // A rank that waits in a signal handler does not react to the launcher's
    // SIGTERM, and not every launcher (hydra does not) sends SIGKILL after it.
    // Those of the next launcher in a script may be there by then.
    if (after == "term") {
        std::set<std::shared_ptr<Channel>> all;
        for (const auto &[number, rank] : ranks_.all())
            all.insert(rank.channel);
        loop_.after(grace_ms, [this, all = std::move(all)] {
            for (const auto &[number, rank] : ranks_.all()) {
                if (all.contains(rank.channel))
                    kill(rank.pid, SIGKILL);
            }
        });
    }
}

// -------------------------------------------------------------------------------------- images

NodeRank *NodeImages::find(uint32_t number)
{
    const auto orphan = orphans_.find(number);
    return orphan != orphans_.end() ? &orphan->second : ranks_.find(number);
}

void NodeImages::take(NodeRank &rank)
{
    rank.waits = true;
    rank.frozen = false;
    rank.stored = false;
    if (!task_) {
        fail(rank, "no checkpoint is under way", EINVAL);
        return;
    }
    const bookmark::Node *node = tree_.node();
    if (node == nullptr ||
        !node->at_cut()) { // of a checkpoint that is over; or of what is no rank of Cryo's
        answer(rank, false);
        return;
    }
    const uint32_t number = rank.number;
    rank.local = level_.make(number);
    const ImagePlace place = {.rank = number,
                              .directory = task_->directory_of(number),
                              .name = image_name(rank.pid),
                              .local = rank.local,
                              .rate = level_.rate() / ranks_.all().size(),
                              .previous = task_->previous
                                              ? image_in(task_->directory, *task_->previous, rank)
                                              : std::string(),
                              .node = task_->counted ? node_ : ""};
    rank.imager = ways_.imager(loop_);
    if (Result<void> begun = rank.imager->start(
            rank.pid, place, task_->options,
            {.cut = [this, number] { cut(number); },
             .local = [this, number] { stored(number); },
             .end = [this, number](const Taken &taken) { ended(number, taken); }});
        !begun)
        fail(rank, begun.error().text(), begun.error().code());
}

void NodeImages::refuse(NodeRank &rank)
{
    rank.waits = true;
    answer(rank, false);
}

// The rank heard nothing of us for too long. If that was in the checkpoint
// which is under way, it is not at the cut that all other ranks are at.
void NodeImages::left(NodeRank &rank, std::string_view epoch)
{
    const bookmark::Node *node = tree_.node();
    uint32_t left = 0;
    if (epoch.size() != sizeof(left) || !task_ || node == nullptr)
        return;
    memcpy(&left, epoch.data(), sizeof(left));
    if (left != node->epoch() || !(rank.waits || tree_.is_agreeing()))
        return;
    rank.waits = false;
    fail(rank,
         fmt::format("it went on, for nothing was said to it for {}",
                     in_seconds(patience_of_ranks * longest_silence())),
         ETIMEDOUT);
}

bool NodeImages::part_from(NodeRank &rank)
{
    const bool was_saving = rank.imager && !rank.frozen;
    if (rank.imager && rank.frozen)
        orphans_.insert_or_assign(rank.number, std::move(rank));
    return was_saving;
}

// The frozen copy is made.
void NodeImages::cut(uint32_t number)
{
    NodeRank *rank = ranks_.find(number);
    if (rank == nullptr || !task_)
        return;
    rank->frozen = true;
    let_go_on(*rank);
    report_(cut_of(*rank));
}

Message NodeImages::cut_of(const NodeRank &rank) const
{
    return Message(Type::cut, {{"checkpoint", task_->number}, {"rank", rank.number}});
}

// The image is complete on this node, and is being copied: a rank that had to wait may go on.
void NodeImages::stored(uint32_t number)
{
    NodeRank *rank = find(number);
    if (rank == nullptr || !task_)
        return;
    rank->stored = true;
    const bool was_frozen = std::exchange(rank->frozen, true);
    const Message stored(Type::local, {{"checkpoint", task_->number}, {"rank", number}});
    if (!was_frozen) {
        let_go_on(*rank);
        report_(cut_of(*rank));
    }
    report_(stored);
}

void NodeImages::ended(uint32_t number, const Taken &taken)
{
    NodeRank *rank = find(number);
    if (rank == nullptr || !task_)
        return;
    if (!taken.error.empty()) {
        if (!rank->local.empty() && !rank->stored)
            level_.blame(taken);
        fail(*rank, taken.error, taken.code);
        return;
    }
    rank->imager.reset();
    rank->frozen = true;
    if (!orphans_.contains(number))
        let_go_on(*rank);
    Message image(Type::image, {{"checkpoint", task_->number},
                                {"rank", number},
                                {"bytes", taken.bytes},
                                {"threads", taken.threads},
                                {"described", true},
                                {"stopped_ns", taken.stopped_ns},
                                {"notices", taken.notices}});
    if (!taken.needs.empty())
        image.fields["needs"] = taken.needs;
    if (!taken.checksum.empty()) {
        image.fields["checksum"] = taken.checksum;
        task_->near[number] = {.name = file_in_level(number, rank->pid),
                               .bytes = taken.bytes,
                               .checksum = taken.checksum};
    }
    if (std::string trouble = level_.take_trouble(); !trouble.empty())
        image.fields["notices"].push_back(std::move(trouble));
    report_(image);
    orphans_.erase(number);
}

void NodeImages::answer(NodeRank &rank, bool saved)
{
    if (!rank.waits)
        return;
    rank.waits = false;
    const char yes = saved ? 1 : 0;
    rank.channel->send(FrameKind::image_end, std::string_view(&yes, 1));
}

// The image needs nothing more of the rank.
void NodeImages::let_go_on(NodeRank &rank)
{
    if (!task_->hold)
        answer(rank, true);
    else if (rank.waits)
        rank.channel->send(FrameKind::image_cut, "");
}

void NodeImages::fail(NodeRank &rank, const std::string &why, int code)
{
    rank.imager.reset();
    answer(rank, false);
    const uint32_t number = rank.number;
    orphans_.erase(number);
    report_failure(number, why, code);
}

void NodeImages::report_failure(uint32_t rank, const std::string &why, int code)
{
    report_(Message(Type::image, {{"checkpoint", task_ ? task_->number : 0},
                                  {"rank", rank},
                                  {"error", why},
                                  {"code", code}}));
}

// All images of the job are there.
void NodeImages::encode(const Message &message)
{
    const uint64_t number = message.fields.at("checkpoint");
    const LocalLevel *level = level_.level();
    if (!task_ || task_->number != number || level == nullptr) {
        report_(Message(Type::encoded, {{"checkpoint", number},
                                        {"error", "has no images in a directory of its own"},
                                        {"code", ENOENT}}));
        return;
    }
    std::vector<redundancy::SetFile> own;
    for (const auto &[rank, file] : task_->near)
        own.push_back(file);
    set_.begin(message, level->directory(), own);
}

// -------------------------------------------------------------------------------- signs of life

void NodeImages::look()
{
    tell_ranks();
    tell_alive();
    look_at_imagers();
}

// Reports to the coordinator, with the sizes of the images that are being taken.
void NodeImages::tell_alive()
{
    json images = json::array();
    for (const auto *some : {&ranks_.all(), &orphans_}) {
        for (const auto &[number, rank] : *some) {
            if (rank.imager && task_)
                images.push_back({{"rank", number},
                                  {"bytes", bytes_in(task_->directory_of(number)) +
                                                (rank.local.empty() ? 0 : bytes_in(rank.local))}});
        }
    }
    report_(Message(Type::alive, {{"images", images}}));
}

// Tells ranks that may be waiting that the daemon is alive.
void NodeImages::tell_ranks()
{
    for (auto &[number, rank] : ranks_.all()) {
        if (rank.waits || tree_.is_agreeing())
            rank.channel->send(FrameKind::wait, "");
    }
}

// A stopped imager writes no image, and its rank waits meanwhile.
void NodeImages::look_at_imagers()
{
    for (auto &[number, rank] : ranks_.all()) {
        if (rank.waits && rank.imager && rank.imager->is_stopped_for(longest_silence())) {
            fail(rank,
                 fmt::format("the process that takes its image was stopped (SIGSTOP) for {}",
                             in_seconds(longest_silence())),
                 ETIMEDOUT);
            return; // the call may have changed the ranks
        }
    }
}

} // namespace cryo::coord
