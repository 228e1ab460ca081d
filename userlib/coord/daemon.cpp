// SPDX-License-Identifier: Apache-2.0
#include "coord/daemon.hpp"

#include "base/directory.hpp"
#include "coord/patience.hpp"
#include "coord/snapshot.hpp"
#include "coord/snapshot_removal.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::coord {

using nlohmann::json;

namespace {

// Clients on another host may be anyone; those on this one are known to be of the same user.
constexpr Strangers::Limits from_elsewhere = {.most = 16, .milliseconds = 3000};
constexpr Strangers::Limits from_here = {.most = 4096, .milliseconds = 10'000};
constexpr int64_t grace_ms = 2000; // for mpirun to end its ranks
constexpr size_t most_name = 256;  // of the job at the launcher
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

bool is_printable(std::string_view text)
{
    return text.size() <= most_name &&
           std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

} // namespace

Daemon::Daemon(Loop &loop, Job job, std::string node, Report report)
    : loop_(loop), job_(std::move(job)), name_(std::move(node)), report_(std::move(report)),
      strangers_(loop, from_elsewhere), strangers_here_(loop, from_here)
{}

Daemon::~Daemon() = default;

Result<void> Daemon::keep_port(const std::string &address)
{
    Result<Listening> tcp = coord::keep_port(address);
    if (!tcp)
        return tcp.error().within("an address for the job's other nodes (CRYO_LISTEN)");
    tcp_ = std::move(*tcp);
    return {};
}

Result<void> Daemon::listen_to_daemons()
{
    if (listens_)
        return {};
    if (Result<void> done = tcp_.listen(); !done)
        return done;
    listens_ = true;
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

// ------------------------------------------------------------------------------------- ranks

void Daemon::accept_rank()
{
    Fd fd(accept4(rank_listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) {
        loop_.rest(rank_listener_.get());
        return;
    }
    const uint32_t uid = peer_of(fd.get()).uid;
    if (uid != geteuid() && uid != 0)
        return;
    const std::shared_ptr<Channel> channel = Channel::make(loop_, std::move(fd));
    strangers_here_.meet(channel, "");
    Channel *at = channel.get();
    channel->on_frame = [this, at](FrameKind kind, std::string_view body) {
        const std::shared_ptr<Channel> one = at->shared_from_this();
        strangers_here_.known(*one);
        if (kind == FrameKind::hello)
            greet_rank(one, body);
        else
            one->close();
    };
}

void Daemon::greet_rank(const std::shared_ptr<Channel> &channel, std::string_view body)
{
    Hello hello;
    if (body.size() < sizeof(hello)) {
        channel->refuse();
        return;
    }
    memcpy(&hello, body.data(), sizeof(hello));
    std::string refused;
    if (hello.version != hello_version)
        refused = "the daemon of this node is of another version of Cryo";
    else if (hello.rank >= hello.ranks || hello.ranks > most_ranks)
        refused = fmt::format("there is no rank {} of {}", hello.rank, hello.ranks);
    else if (!is_printable(body.substr(sizeof(hello))))
        refused = "the launcher's name of the job is no text";
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
    const Welcome welcome = {
        .patience_ms = static_cast<uint32_t>((patience_of_ranks * longest_silence()).count())};
    channel->send(FrameKind::welcome, {reinterpret_cast<const char *>(&welcome), sizeof(welcome)});
    report_(Message(Type::rank, {{"rank", number},
                                 {"ranks", hello.ranks},
                                 {"pid", rank.pid},
                                 {"space", body.substr(sizeof(hello))}}));
}

void Daemon::rank_frame(Rank &rank, FrameKind kind, std::string_view body)
{
    // What has no place in the tree may be no rank of the job's: nothing that it says is passed on.
    if (kind == FrameKind::image && !rank.child) {
        rank.waits = true;
        answer(rank, false);
    } else if (kind == FrameKind::image) {
        take_image(rank);
    } else if (kind == FrameKind::left && rank.child) {
        rank_left(rank, body);
    } else if (kind == FrameKind::bookmark && node_ && rank.child) {
        const auto *bytes = reinterpret_cast<const uint8_t *>(body.data());
        if (!node_->from_child(*rank.child, {bytes, body.size()}))
            rank.channel->refuse();
        progress();
    }
}

// The rank heard nothing of us for too long. If that was in the checkpoint
// which is under way, it is not at the cut that all other ranks are at.
void Daemon::rank_left(Rank &rank, std::string_view epoch)
{
    uint32_t left = 0;
    if (epoch.size() != sizeof(left) || !task_ || !node_)
        return;
    memcpy(&left, epoch.data(), sizeof(left));
    if (left != node_->epoch() || !(rank.waits || is_agreeing()))
        return;
    rank.waits = false;
    fail_image(rank,
               fmt::format("it went on, for nothing was said to it for {}",
                           in_seconds(patience_of_ranks * longest_silence())),
               ETIMEDOUT);
}

bool Daemon::is_agreeing() const
{
    return node_ && node_->outcome() == bookmark::Node::Outcome::working;
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
        report_(Message(Type::image, {{"checkpoint", task_ ? task_->number : 0},
                                      {"rank", number},
                                      {"error", "it ended while its image was taken"},
                                      {"code", ESRCH}}));
    report_(Message(Type::rank_gone, {{"rank", number}}));
    if (node_ && child)
        node_->lost_child(*child);
    progress();
}

// The job has another one of this number; or what came is none of its ranks.
void Daemon::refuse_rank(const Message &message)
{
    const uint32_t number = message.fields.at("rank");
    const auto at = ranks_.find(number);
    if (at == ranks_.end() || message.fields.at("pid") != at->second.pid)
        return; // it has ended meanwhile
    const std::shared_ptr<Channel> channel = at->second.channel;
    channel->send(FrameKind::refused, message.fields.at("error").get<std::string>());
    channel->close_when_sent();
    rank_ended(number);
}

void Daemon::answer(Rank &rank, bool saved)
{
    if (!rank.waits)
        return;
    rank.waits = false;
    const char yes = saved ? 1 : 0;
    rank.channel->send(FrameKind::image_end, std::string_view(&yes, 1));
}

// The image needs nothing more of the rank.
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
    report_(Message(Type::image, {{"checkpoint", task_ ? task_->number : 0},
                                  {"rank", number},
                                  {"error", why},
                                  {"code", code}}));
}

void Daemon::take_image(Rank &rank)
{
    rank.waits = true;
    rank.frozen = false;
    rank.stored = false;
    if (!task_) {
        fail_image(rank, "no checkpoint is under way", EINVAL);
        return;
    }
    if (!node_ ||
        !node_->at_cut()) { // of a checkpoint that is over; or of what is no rank of Cryo's
        answer(rank, false);
        return;
    }
    const std::string directory = task_->directory + "/" + rank_directory(rank.number);
    if (mkdir(directory.c_str(), 0700) != 0) {
        fail_image(rank, fmt::format("{}: {}", directory, strerror(errno)), errno);
        return;
    }
    const uint32_t number = rank.number;
    const auto cut = [this, number] {
        const auto at = ranks_.find(number);
        if (at == ranks_.end() || !task_)
            return;
        at->second.frozen = true;
        let_go_on(at->second);
        report_(Message(Type::cut, {{"checkpoint", task_->number}, {"rank", number}}));
    };
    rank.local = make_local(number);
    const ImagePlace place = {.directory = directory,
                              .name = image_name(rank.pid),
                              .local = rank.local,
                              .rate = task_->local ? task_->local->rate / ranks_.size() : 0};
    rank.imager = std::make_unique<Imager>(loop_);
    if (Result<void> begun = rank.imager->start(
            rank.pid, place, task_->options,
            {.cut = cut,
             .local = [this, number] { image_is_local(number); },
             .end = [this, number](const Taken &taken) { image_ended(number, taken); }});
        !begun)
        fail_image(rank, begun.error().text(), begun.error().code());
}

void Daemon::image_ended(uint32_t number, const Taken &taken)
{
    const auto orphan = orphans_.find(number);
    const auto at = orphan != orphans_.end() ? orphan : ranks_.find(number);
    if (at == ranks_.end() || !task_)
        return;
    Rank &rank = at->second;
    if (!taken.error.empty()) {
        blame_local(rank, taken);
        fail_image(rank, taken.error, taken.code);
        return;
    }
    rank.imager.reset();
    if (at != orphan)
        let_go_on(rank);
    Message image(Type::image, {{"checkpoint", task_->number},
                                {"rank", number},
                                {"bytes", taken.bytes},
                                {"threads", taken.threads},
                                {"stopped_ns", taken.stopped_ns},
                                {"notices", taken.notices}});
    if (!taken.checksum.empty())
        image.fields["checksum"] = taken.checksum;
    if (task_->local && !task_->local->trouble.empty())
        image.fields["notices"].push_back(std::exchange(task_->local->trouble, {}));
    report_(image);
    orphans_.erase(number);
}

// -------------------------------------------------------------------------------- checkpoints

void Daemon::prepare(const Message &message)
{
    if (retiring_) { // processes that take images are forked while there is one thread
        to_prepare_ = message;
        return;
    }
    Task task;
    task.number = message.fields.at("checkpoint");
    task.directory = message.fields.at("directory");
    task.options = image_options(message.fields.at("options"));
    task.hold = message.fields.at("hold");
    Message answer(Type::prepared, {{"checkpoint", task.number}});
    std::optional<std::string> seen = directory_with(message.fields.at("token"), task.directory);
    if (!seen) {
        answer.fields["error"] =
            fmt::format("node {} does not see {}; name a directory that all nodes "
                        "share (--where)",
                        name_, task.directory);
    } else {
        task.directory = std::move(*seen);
        if (message.fields.contains("local"))
            task.local = begin_local(message.fields.at("local"));
        task_ = std::move(task);
    }
    report_(answer);
}

void Daemon::cancel(const Message &message)
{
    for (auto &[number, rank] : ranks_) {
        rank.imager.reset();
        answer(rank, false);
    }
    orphans_.clear();
    to_prepare_.reset();
    end_local(false);
    task_.reset();
    // The daemon above us in the tree may not be able to cancel it.
    if (node_ && parent_)
        node_->lost_parent();
    report_(Message(Type::idle, {{"checkpoint", message.fields.at("checkpoint")}}));
}

// The snapshot is committed: held ranks resume, stop, or end.
void Daemon::finish(const Message &message)
{
    const std::string after = message.fields.at("after");
    for (auto &[number, rank] : ranks_) {
        if (after == "stop")
            kill(rank.pid, SIGSTOP);
        if (after != "term")
            answer(rank, true);
    }
    end_local(true);
    task_.reset();
    // A rank that waits in a signal handler does not react to the launcher's
    // SIGTERM, and not every launcher (hydra does not) sends SIGKILL after it.
    if (after == "term")
        loop_.after(grace_ms, [this] {
            for (auto &[number, rank] : ranks_)
                kill(rank.pid, SIGKILL);
        });
}

// Reports to the coordinator, with the sizes of the images that are being taken.
void Daemon::tell_alive()
{
    json images = json::array();
    for (const auto *some : {&ranks_, &orphans_}) {
        for (const auto &[number, rank] : *some) {
            if (rank.imager && task_)
                images.push_back(
                    {{"rank", number},
                     {"bytes", bytes_in(task_->directory + "/" + rank_directory(number)) +
                                   (rank.local.empty() ? 0 : bytes_in(rank.local))}});
        }
    }
    report_(Message(Type::alive, {{"images", images}}));
}

// Tells ranks that may be waiting that the daemon is alive.
void Daemon::tell_ranks()
{
    for (auto &[number, rank] : ranks_) {
        if (rank.waits || is_agreeing())
            rank.channel->send(FrameKind::wait, "");
    }
}

// A stopped imager writes no image, and its rank waits meanwhile.
void Daemon::look_at_imagers()
{
    for (auto &[number, rank] : ranks_) {
        if (rank.waits && rank.imager && rank.imager->is_stopped_for(longest_silence())) {
            fail_image(rank,
                       fmt::format("the process that takes its image was stopped (SIGSTOP) for {}",
                                   in_seconds(longest_silence())),
                       ETIMEDOUT);
            return; // the call may have changed ranks_
        }
    }
}

void Daemon::command(const Message &message)
{
    switch (message.type) {
    case Type::place:
        place(message);
        break;
    case Type::rank_refused:
        refuse_rank(message);
        break;
    case Type::prepare:
        prepare(message);
        break;
    case Type::cancel:
        cancel(message);
        break;
    case Type::finish:
        finish(message);
        break;
    case Type::look:
        tell_ranks();
        tell_alive();
        look_at_imagers();
        break;
    case Type::go_on:
        for (auto &[number, rank] : ranks_)
            kill(rank.pid, SIGCONT);
        break;
    default:
        break;
    }
}

void Daemon::progress() const
{
    if (on_progress)
        on_progress();
}

} // namespace cryo::coord
