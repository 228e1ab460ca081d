// SPDX-License-Identifier: Apache-2.0
#include "large_job.hpp"

#include "bookmark/rank.hpp"
#include "coord/image_options.hpp"
#include "coord/patience.hpp"
#include "coord/snapshot.hpp"
#include "image/rank_groups.hpp"
#include "still_mpi.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <stdexcept>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace cryo::coord::sim {

using nlohmann::json;

namespace {

// In the address of a node that is in this process; its number is the port.
constexpr const char *in_here = "in-process";
// An answer names all ranks, so it is much work itself.
constexpr int64_t look_first_ms = 10;
constexpr int64_t look_last_ms = 2560;

// Of the first daemon's thread, and of its commit: all but this thread.
double root_processor()
{
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

// Two for each node, and a few more. The kernel's usual limit is for programs that use select().
void raise_descriptors(uint32_t nodes)
{
    constexpr rlim_t others = 100;
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t needed = 2 * rlim_t(nodes) + others;
    if (limit.rlim_cur < needed)
        throw std::runtime_error(
            fmt::format("{} nodes need {} descriptors, and {} are allowed; raise the hard limit "
                        "(ulimit -Hn)",
                        nodes, needed, limit.rlim_cur));
}

std::pair<Fd, Fd> sockets()
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        throw std::runtime_error("no sockets for so many nodes; raise the limit of descriptors");
    return {Fd(ends[0]), Fd(ends[1])};
}

// Stands still as soon as it is asked to, or never.
class StillRank final : private bookmark::Link
{
  public:
    StillRank(std::shared_ptr<Channel> daemon, uint32_t number, uint32_t ranks, bool is_silent)
        : daemon_(std::move(daemon)), rank_({.self = number, .ranks = ranks}, *this, mpi_),
          is_silent_(is_silent)
    {
        // The counts of all peers, of whom it has none, are 25 KB in a job of 100,000 ranks.
        rank_.made(1, 1, std::span(&number, 1), ranks);
        daemon_->on_frame = [this](FrameKind kind, std::string_view body) { hear(kind, body); };
        Hello hello;
        hello.rank = number;
        hello.ranks = ranks;
        std::string text(reinterpret_cast<const char *>(&hello), sizeof(hello));
        daemon_->send(FrameKind::hello, text.append("job"));
    }

  private:
    void hear(FrameKind kind, std::string_view body)
    {
        const auto *bytes = reinterpret_cast<const uint8_t *>(body.data());
        if (kind == FrameKind::bookmark) {
            rank_.handle({bytes, body.size()});
        } else if (kind == FrameKind::image_end) {
            asks_ = false;
            rank_.saved(body == std::string_view("\1", 1));
        } else {
            return;
        }
        if (rank_.pending() && rank_.must_hold() && !is_silent_)
            rank_.serve();
        if (rank_.phase() == bookmark::Phase::drained && !std::exchange(asks_, true))
            daemon_->send(FrameKind::image, "");
    }
    void send(bookmark::Bytes message) override
    {
        daemon_->send(FrameKind::bookmark,
                      {reinterpret_cast<const char *>(message.data()), message.size()});
    }

    std::shared_ptr<Channel> daemon_;
    StillMpi mpi_;
    bookmark::Rank rank_;
    bool is_silent_;
    bool asks_ = false; // for its image
};

// An image without contents, that is there at once.
class NoImage final : public Imager
{
  public:
    NoImage(Loop &loop, bool is_real) : Imager(loop), loop_(loop), is_real_(is_real) {}
    ~NoImage() override
    {
        loop_.call_off(cut_);
        loop_.call_off(end_);
    }
    Result<void> start(pid_t pid, const ImagePlace &place, const ImageOptions & /*options*/,
                       Events events) override
    {
        if (Result<void> made = is_real_ ? make(pid, place) : Result<void>(); !made)
            return made;
        Taken taken;
        if (!place.previous.empty())
            taken.needs = {snapshot_of(place.previous)};
        cut_ = loop_.after(0, std::move(events.cut));
        end_ = loop_.after(0, [taken, told = std::move(events.end)] { told(taken); });
        return {};
    }
    bool is_stopped_for(std::chrono::milliseconds /*time*/) override { return false; }

  private:
    // SEQ/DIRECTORY OF THE RANK/IMAGE, or with that of the rank's group in between.
    static int snapshot_of(const std::filesystem::path &image)
    {
        const std::filesystem::path above = image.parent_path().parent_path();
        const bool is_group = above.filename().string().starts_with(image::group_prefix);
        return std::stoi((is_group ? above.parent_path() : above).filename());
    }
    static Result<void> make(pid_t pid, const ImagePlace &place)
    {
        std::error_code failed;
        std::filesystem::create_directory(place.directory, failed);
        std::ofstream(place.directory + "/" + place.name).close();
        const Result<Directory> directory = Directory::open(place.directory);
        if (!directory)
            return directory.error();
        return describe_image(*directory, {.rank = place.rank,
                                           .pid = pid,
                                           .node = place.node,
                                           .file = place.name,
                                           .is_counted = !place.node.empty()});
    }

    Loop &loop_;
    bool is_real_;
    uint64_t cut_ = 0;
    uint64_t end_ = 0;
};

} // namespace

LargeJob::LargeJob(const Size &size, const std::string &directory)
    : size_(size), store_(directory + "/snapshots"), post_(loop_), from_root_(loop_),
      root_post_(root_loop_), root_(root_loop_)
{
    raise_descriptors(size_.nodes);
    job_.id = "7-aa";
    job_.secret = std::string(64, '7');
    job_.launcher = getpid();
    job_.directory = directory + "/run";
    std::filesystem::create_directories(job_.directory);
    std::filesystem::create_directories(store_);
    coordinator_ = std::make_unique<Coordinator>(root_loop_, job_, "n0", Fd(), ways(0));
    if (Result<void> begun = coordinator_->begin(); !begun)
        throw std::runtime_error(begun.error().text());
    root_.begin();
    for (uint32_t node = 1; node < size_.nodes; node++)
        make_node(node);
    root_.put([this] { add_ranks(coordinator_->local(), root_post_, 0); });
    Result<Fd> socket = connect_path(job_.root_socket());
    if (!socket)
        throw std::runtime_error(socket.error().text());
    command_ = Channel::make(loop_, std::move(*socket));
    command_->on_message(Speaker::job, [this](const Message &message) { hear(message); });
    command_->on_end = [this] { is_cut_off("the command"); };
    wait_for_tree();
}

LargeJob::~LargeJob() = default;

void LargeJob::is_cut_off(const std::string &from)
{
    broken_ = "the first daemon has ended its connection with " + from;
    loop_.stop();
}

uint32_t LargeJob::rank_of(uint32_t node, uint32_t index) const
{
    return size_.cyclic ? index * size_.nodes + node : node * size_.ranks_on_each + index;
}

Ways LargeJob::ways(uint32_t node)
{
    return {.to_parent = [this, node](Loop &, const ParentAt &at) { return connect(node, at); },
            .imager = [this](Loop &loop) -> std::unique_ptr<Imager> {
                return std::make_unique<NoImage>(loop, size_.images);
            }};
}

void LargeJob::make_node(uint32_t number)
{
    auto [here, there] = sockets();
    nodes_.resize(size_.nodes);
    nodes_[number] = std::make_unique<Node>();
    Node &node = *nodes_[number];
    node.up = Channel::make(loop_, std::move(here));
    of_root_.push_back(node.up);
    node.daemon = std::make_unique<Daemon>(
        loop_, job_, fmt::format("n{}", number),
        [this, up = node.up, number](const Message &message) {
            up->send(message);
            nodes_[number]->is_placed = nodes_[number]->is_placed || message.type == Type::placed;
            if (message.type == Type::placed && ++placed_ + 1 == size_.nodes)
                loop_.stop();
        },
        ways(number));
    node.up->on_message(Speaker::coordinator, [this, number](const Message &message) {
        Node &one = *nodes_[number];
        if (!std::exchange(one.has_joined, true)) {
            one.daemon->joined(message);
            add_ranks(*one.daemon, post_, number);
        } else if (!*one.is_stopped) {
            one.daemon->command(message);
        }
    });
    node.up->on_end = [this, number] { is_cut_off(fmt::format("n{}", number)); };
    counts_.go_by(*node.up);
    root_.put([this, number, fd = std::make_shared<Fd>(std::move(there))] {
        const auto channel = Channel::make(root_loop_, std::move(*fd));
        coordinator_->local().on_join(
            channel, fmt::format("n{}", number),
            Message(Type::join, {{"addresses", json::array({in_here})}, {"port", number}}));
        counts_.come_by(*channel);
    });
}

void LargeJob::add_ranks(Daemon &daemon, InProcess &post, uint32_t node)
{
    const uint32_t all = size_.nodes * size_.ranks_on_each;
    for (uint32_t index = 0; index < size_.ranks_on_each; index++) {
        auto [here, there] = post.connect();
        daemon.meet_rank(there);
        (node == 0 ? root_ranks_ : ranks_)
            .push_back(std::make_shared<StillRank>(here, rank_of(node, index), all,
                                                   rank_of(node, index) == size_.silent));
    }
    post.deliver_all(); // a rank may not wait for long before its first word
}

Result<std::shared_ptr<Channel>> LargeJob::connect(uint32_t from, const ParentAt &parent)
{
    nodes_[from]->above = 0;
    if (parent.addresses == std::vector<std::string>{in_here}) {
        nodes_[from]->above = parent.port;
        auto [here, there] =
            post_.connect(nodes_[from]->is_stopped, nodes_[parent.port]->is_stopped);
        introduce({here, there}, parent);
        return here;
    }
    auto [here, there] = sockets();
    root_.put([this, identity = parent.identity, fd = std::make_shared<Fd>(std::move(there))] {
        const auto one = Channel::make(root_loop_, std::move(*fd));
        if (coordinator_->local().meet(one, identity))
            counts_.come_by(*one);
    });
    const auto channel = Channel::make(loop_, std::move(here));
    of_root_.push_back(channel);
    loop_.after(0, [this, channel] {
        channel->on_secure();
        counts_.go_by(*channel);
    });
    return channel;
}

// A daemon tries for some seconds, but all of these have one processor.
void LargeJob::introduce(const InProcess::Ends &ends, const ParentAt &parent)
{
    if (nodes_[parent.port]->daemon->meet(ends.second, parent.identity))
        loop_.after(0, [here = ends.first] { here->on_secure(); });
    else // it has not been told of the tree yet
        loop_.after(look_first_ms, [this, ends, parent] { introduce(ends, parent); });
}

// ------------------------------------------------------------------------------------ commands

void LargeJob::hear(const Message &message)
{
    if (message.type == Type::state && message.fields.at("state") == "finished locally")
        finished_locally_ = seconds_of(CLOCK_MONOTONIC);
    if (message.type != awaited_)
        return;
    answer_ = message;
    loop_.stop();
}

void LargeJob::run(StandstillWatch &watch)
{
    if (broken_.empty())
        watch.run();
    if (!broken_.empty())
        throw std::runtime_error(fmt::format("{}: {}", watch.what(), broken_));
}

Message LargeJob::ask(StandstillWatch &watch, const Message &request, Type answer)
{
    awaited_ = answer;
    answer_.reset();
    command_->send(request);
    run(watch);
    return *answer_;
}

void LargeJob::wait_for_tree()
{
    StandstillWatch watch(loop_, size_.look_ms, "the tree of daemons",
                          [this] { return waits_for(); });
    if (placed_ + 1 < size_.nodes)
        run(watch);
    int64_t wait = look_first_ms;
    while (!ask(watch, Message(Type::status_wanted), Type::status).fields.at("ready").get<bool>()) {
        loop_.after(wait, [this] { loop_.stop(); });
        wait = std::min(2 * wait, look_last_ms);
        run(watch);
    }
    counts_.take();
}

std::pair<uint64_t, uint64_t> LargeJob::traffic() const
{
    std::pair<uint64_t, uint64_t> both = {0, 0};
    for (const std::shared_ptr<Channel> &one : of_root_) {
        both.first += one->sent();
        both.second += one->taken();
    }
    return both;
}

Figures LargeJob::checkpoint()
{
    const auto [to_before, from_before] = traffic();
    const double begin = seconds_of(CLOCK_MONOTONIC);
    const double root_begin = root_processor();
    const double loop_begin = root_.processor_seconds();
    StandstillWatch watch(loop_, size_.look_ms, "a checkpoint", [this] { return waits_for(); });
    counts_.take();
    const Message end = ask(watch,
                            Message(Type::checkpoint, {{"directory", store_},
                                                       {"delta", size_.deltas ? "auto" : "none"}}),
                            Type::end);
    Figures figures;
    const double now = seconds_of(CLOCK_MONOTONIC);
    figures.seconds = now - begin;
    figures.commit_seconds = now - finished_locally_;
    figures.root_seconds = root_processor() - root_begin;
    figures.loop_seconds = root_.processor_seconds() - loop_begin;
    figures.kinds = counts_.take();
    const auto [to_after, from_after] = traffic();
    figures.to_root = to_after - to_before;
    figures.from_root = from_after - from_before;
    figures.error = end.fields.value("error", "");
    figures.ranks = end.fields.value("ranks", uint64_t(0));
    notices_ = end.fields.value("notices", std::vector<std::string>());
    return figures;
}

void LargeJob::stop_daemon(uint32_t node)
{
    *nodes_[node]->is_stopped = true;
}

} // namespace cryo::coord::sim
