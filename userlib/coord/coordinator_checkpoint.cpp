// SPDX-License-Identifier: Apache-2.0
// One checkpoint: prepared at every node, agreed upon in the tree, images taken, snapshot
// committed. Until the commit any step may fail anywhere, and then nothing has changed.
#include "base/printable.hpp"
#include "coord/coordinator.hpp"
#include "coord/image_copy.hpp"
#include "coord/local_level.hpp"
#include "coord/parameters.hpp"
#include "coord/patience.hpp"
#include "coord/tls.hpp"
#include "sys/own_variable.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <unistd.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

namespace {

constexpr int64_t inquire_ms = 2000;
constexpr int64_t most_early_s = 60;
constexpr size_t longest_notice = 1 << 15;
constexpr size_t most_notice_bytes = 8 << 20; // in JSON at most six times as many

std::vector<std::string> command_line(pid_t pid)
{
    std::ifstream in(fmt::format("/proc/{}/cmdline", pid), std::ios::binary);
    std::vector<std::string> words;
    for (std::string word; std::getline(in, word, '\0');)
        words.push_back(word);
    return words;
}

} // namespace

Coordinator::Checkpoint::Checkpoint() = default;

void Coordinator::to_watchers(const Message &message)
{
    const auto all = watchers_; // one of them may be removed while it is sent to
    for (const std::shared_ptr<Channel> &one : all)
        one->send(message);
}

void Coordinator::say(const char *state)
{
    state_ = state;
    to_watchers(Message(Type::state, {{"state", state}}));
}

Message end_of(const Error &error)
{
    return Message(Type::end, {{"ok", false}, {"code", error.code()}, {"error", error.text()}});
}

// Starting or restarted ranks come soon; those of a program without MPI never do.
void Coordinator::await_ranks(const std::shared_ptr<Channel> &channel, const json &request)
{
    const int64_t patience = request.value("patience", int64_t(0));
    const int64_t limit = patience > 0 ? std::min(patience, most_early_s) : most_early_s;
    Early early = {channel, request, 0, ""};
    early.limit = loop_.after(limit * 1000, [this, channel, limit] {
        const Result<void> ready = complete();
        if (forget_early(channel) && !ready)
            channel->send(end_of(Error(ready.error().code(),
                                       fmt::format("after {} s {}", limit, ready.error().text()))));
    });
    early_.push_back(std::move(early));
    look_at_early();
}

bool Coordinator::forget_early(const std::shared_ptr<Channel> &channel)
{
    for (auto at = early_.begin(); at != early_.end(); ++at) {
        if (at->channel == channel) {
            loop_.call_off(at->limit);
            early_.erase(at);
            return true;
        }
    }
    return false;
}

// Starts the requests that wait for ranks, or refuses those that wait in vain.
void Coordinator::look_at_early()
{
    if (early_.empty() && !again_)
        return;
    const Result<void> ready = complete();
    if (!ready && ready.error().code() == EAGAIN) {
        for (Early &one : early_) {
            if (one.told != ready.error().text())
                one.channel->send(Message(Type::missing, {{"text", ready.error().text()}}));
            one.told = ready.error().text();
        }
        return;
    }
    const std::vector<Early> all = std::exchange(early_, {});
    for (const Early &one : all) {
        loop_.call_off(one.limit);
        want(one.channel, one.request);
    }
    if (again_ && !now_)
        begin_for_program();
}

// MPI_Ckpt() or global_ckpt() was called, and no checkpoint under way serves that call.
void Coordinator::program_wants()
{
    const Result<void> ready = complete();
    if (now_ && now_->stage == Stage::preparing)
        now_->by_program = true;
    else if (now_ || (!ready && ready.error().code() == EAGAIN))
        again_ = true;
    else
        begin_for_program();
}

// The job's parameters stand in for what a command would specify.
void Coordinator::begin_for_program()
{
    again_ = false;
    const Parameters of_job = parameters_of(own_variables());
    const char *last = sys::own_variable(versions_variable);
    const std::string directory = !of_job.directory.empty() ? of_job.directory
                                  : last != nullptr         ? last
                                                            : default_base();
    ImageOptions options;
    options.common.backend = of_job.backend;
    json request = to_json(options);
    request["directory"] = directory;
    request["keep"] = of_job.keep;
    if (of_job.local.starts_with('/') && is_utf8(of_job.local))
        request["local"] = of_job.local;
    want(nullptr, request);
    if (now_)
        now_->by_program = true;
    else if (local_.node() != nullptr)
        local_.node()->decline();
}

void Coordinator::want(const std::shared_ptr<Channel> &channel, const json &request)
{
    const auto refuse = [&](const Error &error) {
        if (channel)
            channel->send(end_of(error));
    };
    if (now_ && request.value("follow", false)) {
        watchers_.insert(channel);
        say(state_.c_str());
        return;
    }
    if (now_) {
        refuse(Error(EBUSY, now_->stage == Stage::held
                                ? "the job is stopped; continue it with --cont first"
                                : "a checkpoint of this job is under way; --status follows it"));
        return;
    }
    if (Result<void> ready = complete(); !ready) {
        if (channel && ready.error().code() == EAGAIN)
            await_ranks(channel, request);
        else
            refuse(ready.error());
        return;
    }
    if (channel)
        watchers_.insert(channel);
    if (Result<void> begun = begin_checkpoint(request); !begun) {
        watchers_.clear();
        now_.reset();
        state_ = "error";
        refuse(begun.error());
    }
}

Result<void> Coordinator::begin_checkpoint(const json &request)
{
    now_.emplace();
    now_->number = ++checkpoints_;
    now_->request = request;
    say("requested");
    Snapshot about;
    about.job = job_.id;
    about.launcher = job_.launcher;
    about.command = command_line(job_.launcher);
    std::error_code ignored;
    about.directory =
        std::filesystem::read_symlink(fmt::format("/proc/{}/cwd", job_.launcher), ignored);
    const std::string directory = request.at("directory");
    if (!is_utf8(directory)) // MPI_Ckpt's: daemons could not be told of it
        return Error(EILSEQ, directory + ": is not UTF-8; choose another directory");
    // A command makes it, but neither MPI_Ckpt() nor root of another user's job does.
    std::error_code made;
    std::filesystem::create_directories(directory, made); // else it cannot be written to, either
    Result<SnapshotWriter> writer = SnapshotWriter::begin(
        directory, request.value("reference", std::string()), std::move(about));
    if (!writer && made && writer.error().code() == ENOENT)
        return Error::from_errno(directory, made.value());
    if (!writer)
        return writer.error();
    now_->writer.emplace(std::move(*writer));
    const std::string token = random_hex(16);
    if (Result<void> put = now_->writer->put_token(token); !put)
        return put;
    const int64_t patience = request.value("patience", default_patience_s);
    if (patience > 0)
        now_->patience = loop_.after(patience * 1000, [this, patience] {
            if (now_ && (now_->stage == Stage::preparing ||
                         (now_->stage == Stage::pending && !stands_still())))
                give_up(fmt::format("not all ranks could stop within {} s; --status names them, "
                                    "--time gives them longer",
                                    patience),
                        ETIMEDOUT);
        });
    const std::string after = request.value("after", "none");
    ImageOptions options = image_options(request);
    options.fork = options.fork && after == "none"; // held ranks need no copy
    for (const auto &[number, member] : members_)
        now_->awaited.insert(number);
    now_->ranks = ranks_;
    Message prepare(Type::prepare, {{"checkpoint", now_->number},
                                    {"directory", now_->writer->directory()},
                                    {"token", token},
                                    {"options", to_json(options)},
                                    {"hold", after != "none"}});
    if (request.contains("local"))
        prepare.fields["local"] = local_level(request);
    tell_all(prepare);
    if (now_) // this node's daemon may have answered already
        watch_members();
    return {};
}

// What daemons are told of the level of their own directories (docs/stores.md).
json Coordinator::local_level(const json &request) const
{
    const bool held = request.value("after", "none") != "none"; // nothing runs beside the copies
    return {{"directory", request.at("local")},
            {"name", now_->writer->level_name()},
            {"keep", request.value("keep_local", 1U)},
            {"rate", held ? 0 : request.value("copy_rate", uint64_t(0))}};
}

// Here a command that waits for this level alone (--until local) returns.
void Coordinator::image_on_node(uint32_t rank)
{
    now_->on_nodes.insert(rank);
    if (now_->told_of_nodes || now_->on_nodes.size() != now_->ranks.size() ||
        now_->stage != Stage::running)
        return;
    now_->told_of_nodes = true;
    say("local");
}

void Coordinator::prepared(uint32_t member, const Message &message)
{
    if (now_->stage != Stage::preparing)
        return;
    if (message.fields.contains("error")) {
        give_up(message.fields.at("error"), ENOENT);
        return;
    }
    if (now_->awaited.erase(member) != 0 && now_->awaited.empty())
        all_have_answered();
}

// All daemons have prepared the checkpoint, or cancelled it.
void Coordinator::all_have_answered()
{
    if (now_->stage == Stage::cancelling) {
        end_checkpoint();
        return;
    }
    if (now_->stage != Stage::preparing)
        return;
    now_->stage = Stage::pending;
    now_->asked = true;
    say("pending");
    if (Result<uint32_t> epoch = local_.node()->request(); !epoch) {
        give_up(epoch.error().text(), epoch.error().code());
        return;
    }
    tell_missing();
    look_at_tree();
}

// Asks regularly which ranks are missing.
void Coordinator::tell_missing()
{
    loop_.after(inquire_ms, [this, number = now_->number] {
        if (!now_ || now_->number != number || now_->stage != Stage::pending || stands_still())
            return;
        to_watchers(Message(Type::waiting));
        local_.node()->inquire();
        tell_missing();
    });
}

// A daemon's report on a rank's image. The image's name and process are known here.
void Coordinator::image_came(const Message &message)
{
    const json &fields = message.fields;
    const uint32_t rank = fields.at("rank");
    const RankPlace &place = now_->ranks.at(rank);
    const auto member = members_.find(place.member);
    const std::string node = member != members_.end() ? member->second.name : "";
    if (fields.contains("error")) {
        give_up(fmt::format("rank {} on node {}: {}", rank, node,
                            fields.at("error").get<std::string>()),
                fields.value("code", EIO));
        return;
    }
    if (now_->images.contains(rank))
        return; // a daemon of Cryo's says so once
    SnapshotImage &image = now_->images[rank];
    image = {rank, place.pid, node, image_name(place.pid), fields.value("bytes", uint64_t(0))};
    const std::string checksum = fields.value("checksum", "");
    if (now_->request.contains("local")) {
        if (is_image_checksum(checksum)) {
            image.checksum = checksum;
            image.local = local_rank_directory(now_->request.at("local").get<std::string>(),
                                               geteuid(), now_->writer->level_name(), rank);
        }
        image_on_node(rank);
    }
    now_->longest_stop = std::max(now_->longest_stop, fields.value("stopped_ns", uint64_t(0)));
    for (const json &notice : fields.value("notices", json::array()))
        note(fmt::format("rank {}: {}", rank, notice.get<std::string>()));
    look_at_images();
}

// A command that refused the message of the end would report a failure after a good commit.
void Coordinator::note(std::string notice)
{
    notice.resize(std::min(notice.size(), longest_notice));
    const size_t bytes = notice.size() + 16; // what is around it
    if (now_->notice_bytes + bytes > most_notice_bytes) {
        now_->left_out++;
        return;
    }
    now_->notice_bytes += bytes;
    now_->notices.push_back(std::move(notice));
}

void Coordinator::look_at_tree()
{
    if (!now_ || now_->stage == Stage::preparing || now_->agreed || local_.node() == nullptr)
        return;
    switch (local_.node()->outcome()) {
    case bookmark::Node::Outcome::abandoned:
        if (now_->stage == Stage::held)
            end_checkpoint();
        else if (now_->stage != Stage::cancelling)
            give_up(bookmark::describe(local_.node()->reason()), ECANCELED);
        break;
    case bookmark::Node::Outcome::done:
        if (now_->stage == Stage::held) {
            end_checkpoint();
        } else if (const auto why = silence()) {
            give_up(*why, ETIMEDOUT);
        } else {
            now_->agreed = true;
            look_at_images();
        }
        break;
    default:
        break;
    }
}

void Coordinator::look_at_images()
{
    if (!now_ || (now_->stage != Stage::pending && now_->stage != Stage::running))
        return;
    if (now_->stage == Stage::pending) {
        now_->stage = Stage::running;
        for (auto &[rank, image] : now_->progress)
            image.since = Clock::now(); // from now on they have less time to grow
        say("running");
    }
    to_watchers(Message(Type::images, {{"done", now_->images.size()},
                                       {"cut", std::max(now_->cut.size(), now_->images.size())},
                                       {"of", now_->ranks.size()}}));
    // Held ranks have their images, but are not told so yet: the tree waits for them.
    const bool held = now_->request.value("after", "none") != "none";
    if (now_->images.size() != now_->ranks.size() || !(now_->agreed || held))
        return;
    if (const auto why = silence(); why && held)
        give_up(*why, ETIMEDOUT);
    else
        commit();
}

void Coordinator::give_up(std::string error, int code)
{
    if (!now_ || now_->stage == Stage::cancelling || now_->commit) // it decides by itself
        return;
    if (now_->stage == Stage::held) { // it is committed: there is nothing to give up
        end_checkpoint();
        return;
    }
    now_->stage = Stage::cancelling;
    now_->error = std::move(error);
    now_->code = code;
    now_->given_up = Clock::now();
    now_->awaited.clear();
    for (const auto &[number, member] : members_)
        now_->awaited.insert(number);
    if (now_->asked && local_.node() != nullptr &&
        local_.node()->outcome() == bookmark::Node::Outcome::working)
        local_.node()->abandon({.doing = bookmark::Doing::failed});
    tell_all(Message(Type::cancel, {{"checkpoint", now_->number}}));
}

void Coordinator::idle(uint32_t member)
{
    if (now_->stage == Stage::cancelling && now_->awaited.erase(member) != 0 &&
        now_->awaited.empty())
        all_have_answered();
}

void Coordinator::end_checkpoint()
{
    loop_.call_off(now_->patience);
    const bool failed = now_->stage == Stage::cancelling;
    const bool held = now_->stage == Stage::held;
    Checkpoint over = std::move(*now_);
    now_.reset();
    over.writer.reset(); // removes what is not committed
    if (failed && over.by_program && !over.asked && local_.node() != nullptr)
        local_.node()->decline();
    if (failed) {
        say("error");
        to_watchers(end_of(Error(over.code, over.error)));
    } else if (held) {
        state_ = "established";
        to_watchers(Message(Type::end, {{"ok", true}})); // commands that continued it
    }
    watchers_.clear();
    if (ending_)
        loop_.stop();
    else if (again_)
        loop_.after(0, [this] { look_at_early(); });
}

} // namespace cryo::coord
