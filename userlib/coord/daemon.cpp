// SPDX-License-Identifier: Apache-2.0
#include "coord/daemon.hpp"

#include "coord/auth.hpp"
#include "coord/snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::coord {

using nlohmann::json;

namespace {

constexpr int64_t stranger_ms = 10'000;
constexpr int64_t grace_ms = 2000; // for mpirun to end its ranks

} // namespace

Daemon::Daemon(Loop &loop, Job job, std::string node, Report report)
    : loop_(loop), job_(std::move(job)), name_(std::move(node)), report_(std::move(report))
{}

Daemon::~Daemon() = default;

Result<void> Daemon::listen_to_daemons()
{
    Result<Listening> tcp = listen_tcp();
    if (!tcp)
        return tcp.error();
    tcp_ = std::move(*tcp);
    loop_.watch(tcp_.socket.get(), POLLIN, [this](short) { accept_daemon(); });
    return {};
}

Result<void> Daemon::listen_to_ranks()
{
    const std::string path = job_.directory + "/" + name_;
    Result<Fd> listener = listen_at(path);
    if (!listener)
        return listener.error();
    rank_listener_ = std::move(*listener);
    loop_.watch(rank_listener_.get(), POLLIN, [this](short) { accept_rank(); });
    return {};
}

// Who connects and does not say who he is, goes.
void Daemon::meet(const std::shared_ptr<Channel> &channel)
{
    strangers_.insert(channel);
    Channel *at = channel.get();
    channel->on_end = [this, at] { strangers_.erase(at->shared_from_this()); };
    loop_.after(stranger_ms, [this, weak = std::weak_ptr(channel)] {
        const std::shared_ptr<Channel> one = weak.lock();
        if (one && strangers_.erase(one) != 0)
            one->close();
    });
}

// ------------------------------------------------------------------------------------- ranks

void Daemon::accept_rank()
{
    Fd fd(accept4(rank_listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd)
        return;
    const uint32_t uid = peer_of(fd.get()).uid;
    if (uid != geteuid() && uid != 0)
        return;
    const std::shared_ptr<Channel> channel = Channel::make(loop_, std::move(fd));
    meet(channel);
    Channel *at = channel.get();
    channel->on_frame = [this, at](FrameKind kind, std::string_view body) {
        const std::shared_ptr<Channel> one = at->shared_from_this();
        strangers_.erase(one);
        if (kind == FrameKind::hello)
            greet_rank(one, body);
        else
            one->close();
    };
}

void Daemon::greet_rank(const std::shared_ptr<Channel> &channel, std::string_view body)
{
    Hello hello;
    if (body.size() < sizeof(hello))
        return;
    memcpy(&hello, body.data(), sizeof(hello));
    std::string refused;
    if (hello.version != hello_version)
        refused = "the daemon of this node is of another version of Cryo";
    else if (ranks_.count(hello.rank) != 0)
        refused = fmt::format("rank {} is there already: one job runs under one mpirun at a time",
                              hello.rank);
    if (!refused.empty()) {
        channel->send(FrameKind::refused, refused);
        channel->close_when_sent();
        return;
    }
    had_ranks_ = true;
    Rank &rank = ranks_[hello.rank];
    rank.number = hello.rank;
    rank.pid = peer_of(channel->descriptor()).pid;
    rank.channel = channel;
    const uint32_t number = hello.rank;
    channel->on_frame = [this, number](FrameKind kind, std::string_view frame) {
        if (const auto at = ranks_.find(number); at != ranks_.end())
            rank_frame(at->second, kind, frame);
    };
    channel->on_end = [this, number] { rank_ended(number); };
    channel->send(FrameKind::welcome, "");
    report_({{"type", "rank"},
             {"rank", number},
             {"ranks", hello.ranks},
             {"pid", rank.pid},
             {"space", body.substr(sizeof(hello))}});
}

void Daemon::rank_frame(Rank &rank, FrameKind kind, std::string_view body)
{
    if (kind == FrameKind::image) {
        take_image(rank);
    } else if (kind == FrameKind::bookmark && node_ && rank.child) {
        const auto *bytes = reinterpret_cast<const uint8_t *>(body.data());
        if (!node_->from_child(*rank.child, {bytes, body.size()}))
            rank.channel->close_when_sent();
        progress();
    }
}

void Daemon::rank_ended(uint32_t number)
{
    const auto at = ranks_.find(number);
    if (at == ranks_.end())
        return;
    const bool was_saving = at->second.imager && !at->second.frozen;
    const std::optional<uint32_t> child = at->second.child;
    if (at->second.imager && at->second.frozen)
        orphans_.insert_or_assign(number, std::move(at->second));
    ranks_.erase(at);
    if (was_saving)
        report_({{"type", "image"},
                 {"checkpoint", task_ ? task_->number : 0},
                 {"rank", number},
                 {"error", "it ended while its image was taken"},
                 {"code", ESRCH}});
    report_({{"type", "rank_gone"}, {"rank", number}});
    if (node_ && child)
        node_->lost_child(*child);
    progress();
}

void Daemon::answer(Rank &rank, bool saved)
{
    if (!rank.waits)
        return;
    rank.waits = false;
    const char yes = saved ? 1 : 0;
    rank.channel->send(FrameKind::image_end, std::string_view(&yes, 1));
}

// Its image has all that it will have.
void Daemon::let_go_on(Rank &rank)
{
    if (!task_->hold)
        answer(rank, true);
    else if (rank.waits)
        rank.channel->send(FrameKind::image_cut, "");
}

void Daemon::fail_image(Rank &rank, const std::string &why, int code)
{
    rank.imager.reset();
    answer(rank, false);
    const uint32_t number = rank.number;
    orphans_.erase(number);
    report_({{"type", "image"},
             {"checkpoint", task_ ? task_->number : 0},
             {"rank", number},
             {"error", why},
             {"code", code}});
}

void Daemon::take_image(Rank &rank)
{
    rank.waits = true;
    rank.frozen = false;
    if (!task_) {
        fail_image(rank, "no checkpoint is under way", EINVAL);
        return;
    }
    const std::string directory = task_->directory + "/" + rank_directory(rank.number);
    if (mkdir(directory.c_str(), 0700) != 0) {
        fail_image(rank, fmt::format("{}: {}", directory, strerror(errno)), errno);
        return;
    }
    const std::string file = image_name(rank.pid);
    const uint32_t number = rank.number;
    const auto cut = [this, number] {
        const auto at = ranks_.find(number);
        if (at == ranks_.end() || !task_)
            return;
        at->second.frozen = true;
        let_go_on(at->second);
        report_({{"type", "cut"}, {"checkpoint", task_->number}, {"rank", number}});
    };
    rank.imager = std::make_unique<Imager>(loop_);
    if (Result<void> begun = rank.imager->start(
            rank.pid, directory + "/" + file, task_->options, cut,
            [this, number, file](const Taken &taken) { image_ended(number, file, taken); });
        !begun)
        fail_image(rank, begun.error().text(), begun.error().code());
}

void Daemon::image_ended(uint32_t number, const std::string &file, const Taken &taken)
{
    const auto orphan = orphans_.find(number);
    const auto at = orphan != orphans_.end() ? orphan : ranks_.find(number);
    if (at == ranks_.end() || !task_)
        return;
    Rank &rank = at->second;
    if (!taken.error.empty()) {
        fail_image(rank, taken.error, taken.code);
        return;
    }
    rank.imager.reset();
    if (at != orphan)
        let_go_on(rank);
    report_({{"type", "image"},
             {"checkpoint", task_->number},
             {"rank", number},
             {"pid", rank.pid},
             {"node", name_},
             {"file", file},
             {"bytes", taken.bytes},
             {"threads", taken.threads},
             {"stopped_ns", taken.stopped_ns},
             {"notices", taken.notices}});
    orphans_.erase(number);
}

// -------------------------------------------------------------------------------- checkpoints

void Daemon::prepare(const json &message)
{
    Task task;
    task.number = message.at("checkpoint");
    task.directory = message.at("directory");
    task.options = image_options(message.at("options"));
    task.hold = message.at("hold");
    // Only who sees what the coordinator wrote there writes to the same place.
    std::ifstream in(task.directory + "/token");
    std::string token;
    std::getline(in, token);
    json answer = {{"type", "prepared"}, {"checkpoint", task.number}};
    if (token != message.at("token"))
        answer["error"] = fmt::format("node {} does not see {}; name a directory that all nodes "
                                      "share (--where)",
                                      name_, task.directory);
    else
        task_ = std::move(task);
    report_(answer);
}

void Daemon::cancel(const json &message)
{
    for (auto &[number, rank] : ranks_) {
        rank.imager.reset();
        answer(rank, false);
    }
    orphans_.clear();
    task_.reset();
    report_({{"type", "idle"}, {"checkpoint", message.at("checkpoint")}});
}

// Every image is committed, or the snapshot is not: what ranks that were held do now.
void Daemon::finish(const json &message)
{
    const std::string after = message.at("after");
    for (auto &[number, rank] : ranks_) {
        if (after == "stop")
            kill(rank.pid, SIGSTOP);
        if (after != "term")
            answer(rank, true);
    }
    task_.reset();
    // A rank that stands still in a signal handler does not hear the launcher's SIGTERM, and not
    // every launcher (hydra does not) sends SIGKILL after it.
    if (after == "term")
        loop_.after(grace_ms, [this] {
            for (auto &[number, rank] : ranks_)
                kill(rank.pid, SIGKILL);
        });
}

void Daemon::command(const json &message)
{
    const std::string type = message.at("type");
    if (type == "place")
        place(message);
    else if (type == "prepare")
        prepare(message);
    else if (type == "cancel")
        cancel(message);
    else if (type == "finish")
        finish(message);
    else if (type == "continue")
        for (auto &[number, rank] : ranks_)
            kill(rank.pid, SIGCONT);
}

void Daemon::progress() const
{
    if (on_progress)
        on_progress();
}

// --------------------------------------------------------------------------------------- tree

void Daemon::accept_daemon()
{
    Fd fd(accept4(tcp_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd)
        return;
    const std::shared_ptr<Channel> channel = Channel::make(loop_, std::move(fd));
    meet(channel);
    Channel *at = channel.get();
    expect_proof(channel, job_.secret, [this, at] {
        at->on_frame = [this, at](FrameKind, std::string_view body) {
            const std::shared_ptr<Channel> one = at->shared_from_this();
            strangers_.erase(one);
            const json first = json::parse(body, nullptr, false);
            if (first.is_object() && first.value("type", "") == "child")
                attach_child(one, first);
            else if (first.is_object() && first.value("type", "") == "join" && on_join)
                on_join(one, first);
            else
                one->close();
        };
    });
}

void Daemon::attach_child(const std::shared_ptr<Channel> &channel, const json &first)
{
    const uint64_t generation = first.value("generation", uint64_t(0));
    const uint32_t index = first.value("index", 0U);
    const auto at = std::find(child_daemons_.begin(), child_daemons_.end(), index);
    if (generation != generation_ || at == child_daemons_.end()) {
        early_[{generation, index}] = channel;
        return;
    }
    const auto child = static_cast<uint32_t>(at - child_daemons_.begin());
    children_[child] = channel;
    Channel *raw = channel.get();
    channel->on_frame = [this, child, raw](FrameKind, std::string_view body) {
        if (!node_ || children_.size() <= child || children_[child].get() != raw)
            return;
        const auto *bytes = reinterpret_cast<const uint8_t *>(body.data());
        if (!node_->from_child(child, {bytes, body.size()}))
            raw->close_when_sent();
        progress();
    };
    channel->on_end = [this, child, raw] {
        if (!node_ || children_.size() <= child || children_[child].get() != raw)
            return;
        node_->lost_child(child);
        progress();
    };
    check_placed();
}

void Daemon::place(const json &message)
{
    generation_ = message.at("generation");
    child_daemons_ = message.at("daemons").get<std::vector<uint32_t>>();
    child_ranks_ = message.at("ranks").get<std::vector<uint32_t>>();
    bookmark::Routes routes;
    routes.children = static_cast<uint32_t>(child_daemons_.size() + child_ranks_.size());
    for (uint32_t child = 0; child < routes.children; child++)
        routes.is_rank.push_back(child >= child_daemons_.size());
    for (const json &run : message.at("runs"))
        routes.runs.push_back({run.at(0), run.at(1), run.at(2)});
    const bool root = message.at("parent").is_null();
    children_.assign(child_daemons_.size(), nullptr);
    parent_.reset();
    placed_ = false;
    node_ = std::make_unique<bookmark::Node>(
        bookmark::Node::Config{.routes = std::move(routes), .root = root},
        static_cast<bookmark::Node::Output &>(*this));
    for (auto &[number, rank] : ranks_)
        rank.child.reset();
    for (size_t i = 0; i < child_ranks_.size(); i++) {
        const auto child = static_cast<uint32_t>(child_daemons_.size() + i);
        if (const auto at = ranks_.find(child_ranks_[i]); at != ranks_.end())
            at->second.child = child;
        else
            node_->lost_child(child);
    }
    has_parent_ = root;
    const auto waiting = std::exchange(early_, {});
    for (const auto &[where, channel] : waiting) {
        if (where.first >= generation_)
            attach_child(channel, {{"generation", where.first}, {"index", where.second}});
    }
    if (!root) {
        json parent = message.at("parent");
        parent["index"] = message.at("index");
        connect_parent(parent);
    }
    check_placed();
}

void Daemon::connect_parent(const json &parent)
{
    Result<Fd> fd =
        connect_tcp(parent.at("addresses").get<std::vector<std::string>>(), parent.at("port"));
    if (!fd) {
        report_({{"type", "unplaced"}, {"error", fd.error().text()}});
        return;
    }
    parent_ = Channel::make(loop_, std::move(*fd));
    parent_->on_end = [this] {
        if (node_)
            node_->lost_parent();
    };
    const json first = {
        {"type", "child"}, {"generation", generation_}, {"index", parent.at("index")}};
    give_proof(parent_, job_.secret, [this, first] {
        parent_->on_frame = [this](FrameKind, std::string_view body) {
            const auto *bytes = reinterpret_cast<const uint8_t *>(body.data());
            if (node_ && !node_->from_parent({bytes, body.size()}))
                node_->lost_parent();
        };
        parent_->send(first);
        has_parent_ = true;
        check_placed();
    });
}

void Daemon::check_placed()
{
    if (placed_ || !has_parent_ || !node_)
        return;
    for (const std::shared_ptr<Channel> &child : children_) {
        if (!child)
            return;
    }
    placed_ = true;
    report_({{"type", "placed"}, {"generation", generation_}});
}

void Daemon::to_child(uint32_t child, bookmark::Bytes message)
{
    const std::string_view body(reinterpret_cast<const char *>(message.data()), message.size());
    if (child < children_.size()) {
        if (children_[child])
            children_[child]->send(FrameKind::bookmark, body);
        return;
    }
    const size_t index = child - children_.size();
    if (index >= child_ranks_.size())
        return;
    if (const auto at = ranks_.find(child_ranks_[index]);
        at != ranks_.end() && at->second.child == child)
        at->second.channel->send(FrameKind::bookmark, body);
}

void Daemon::to_parent(bookmark::Bytes message)
{
    if (parent_)
        parent_->send(FrameKind::bookmark,
                      {reinterpret_cast<const char *>(message.data()), message.size()});
}

void Daemon::state(const bookmark::StateEntry &state)
{
    if (on_state)
        on_state(state);
}

void Daemon::wanted()
{
    if (on_wanted)
        on_wanted();
}

} // namespace cryo::coord
