// SPDX-License-Identifier: Apache-2.0
//
// Plays all peers of the first daemon of a job: daemons of three other nodes, ranks of its own
// node, and a command, each of which sends what the input says, in any order. They have proven who
// they are. Invariants, whatever the members send:
//
//  - a snapshot that is reported to the command has an image of each rank that the job had when the
//    checkpoint began, and each was reported by the daemon that had the rank;
//  - a commit that has begun comes to an end;
//  - a checkpoint ends if a daemon ends that still has to report an image.
//
// The first byte chooses whether there are ranks on this node (bit 0), the rest is steps
// (step_mutator.cpp), which Script reads.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <set>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/place.hpp"
#include "coord/coordinator.hpp"
#include "coord/frame.hpp"
#include "coord/net.hpp"

// No job is started here (cli/place.cpp knows the installation paths).
namespace cryo::cli {

std::string library(std::string_view)
{
    return {};
}

} // namespace cryo::cli

using namespace cryo;
using namespace cryo::coord;
using nlohmann::json;

namespace {

constexpr size_t nodes = 3;
constexpr uint8_t whats = 26; // kinds of steps
constexpr uint32_t most_rank = 4;
constexpr int rounds = 5; // until answers caused by a message have arrived

[[noreturn]] void fail(const std::string &why)
{
    fmt::print(stderr, "coordinator_fuzz: {}\n", why);
    abort();
}

class Script
{
  public:
    Script(const uint8_t *data, size_t size) : at_(data), end_(data + size) {}
    bool over() const { return at_ == end_; }
    uint8_t byte() { return over() ? 0 : *at_++; }
    std::string bytes(size_t most)
    {
        const size_t size = std::min<size_t>(most, static_cast<size_t>(end_ - at_));
        std::string some(reinterpret_cast<const char *>(at_), size);
        at_ += size;
        return some;
    }

  private:
    const uint8_t *at_;
    const uint8_t *end_;
};

// A directory for the job's files and snapshots.
const std::string &scratch()
{
    static const std::string directory = [] {
        const char *file = getenv("CRYO_FUZZ_FILE");
        std::string name = file != nullptr
                               ? std::filesystem::path(file).parent_path().string() + "/job-XXXXXX"
                               : "/tmp/cryo-fuzz-XXXXXX";
        if (mkdtemp(name.data()) == nullptr)
            fail("no directory");
        return name;
    }();
    return directory;
}

class Play
{
  public:
    explicit Play(bool ranks_here) : ranks_here_(ranks_here) {}

    void act(Script &script)
    {
        begin();
        while (!script.over()) {
            step(script);
            settle();
        }
        await_commit();
        if (lost_)
            await_end();
    }

    ~Play()
    {
        coordinator_.reset();
        std::error_code ignored;
        std::filesystem::remove_all(job_.directory, ignored);
        std::filesystem::remove_all(store_, ignored);
    }

  private:
    struct Node { // as its daemon sees it
        std::shared_ptr<Channel> up;
        std::shared_ptr<Channel> tree;
        uint64_t generation = 0;
    };

    void begin()
    {
        job_.id = "7-aa";
        job_.secret = std::string(64, '7');
        job_.launcher = getpid();
        job_.directory = scratch() + "/run";
        store_ = scratch() + "/snapshots";
        std::filesystem::create_directories(job_.directory);
        std::filesystem::create_directories(store_);
        coordinator_ = std::make_unique<Coordinator>(loop_, job_, "here");
        if (Result<void> begun = coordinator_->begin(); !begun)
            fail(begun.error().text());
        for (size_t n = 0; n < nodes; n++)
            join(n);
        connect_command();
        settle();
    }

    void settle()
    {
        for (int round = 0; round < rounds; round++) {
            loop_.after(0, [this] { loop_.stop(); });
            loop_.resume();
            loop_.run();
        }
    }

    // A commit in progress must end, with success or failure.
    void await_commit()
    {
        for (int waits = 0; state_ == "finished locally" && command_->open(); waits++) {
            if (waits == 1000)
                fail("a commit does not end");
            if (waits > 10) { // it has failed, and the daemons are asked to stop
                for (size_t n = 0; n < nodes; n++)
                    report(n, Type::idle, {{"checkpoint", checkpoint_}});
            }
            loop_.after(5, [this] { loop_.stop(); });
            loop_.resume();
            loop_.run();
        }
    }

    // All other peers have done their part of ending the checkpoint.
    void await_end()
    {
        for (int waits = 0; lost_ && command_->open(); waits++) {
            if (waits == 100)
                fail("a checkpoint goes on without a daemon that has to report an image");
            for (size_t n = 0; n < nodes; n++)
                report(n, Type::idle, {{"checkpoint", checkpoint_}});
            loop_.after(5, [this] { loop_.stop(); });
            loop_.resume();
            loop_.run();
        }
    }

    // ------------------------------------------------------------------------------- other nodes

    // Called before node n's daemon ends.
    void look_at_its_images(size_t n)
    {
        const std::string name = fmt::format("n{}", n);
        if (state_.empty() || state_ == "finished locally" || follows_ || !nodes_[n].up->open())
            return;
        lost_ = lost_ || std::ranges::any_of(ranks_, [&](const json &rank) {
                    return rank.at("node") == name && !reported_.contains({name, rank.at("rank")});
                });
    }

    void join(size_t n)
    {
        if (nodes_[n].up)
            look_at_its_images(n);
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            fail("socketpair");
        Node &node = nodes_[n];
        node.tree.reset();
        node.up = Channel::make(loop_, Fd(ends[0]));
        node.up->on_message(Speaker::coordinator,
                            [this, n](const Message &message) { told(n, message); });
        coordinator_->local().on_join(
            Channel::make(loop_, Fd(ends[1])), fmt::format("n{}", n),
            Message(Type::join, {{"addresses", json::array({"127.0.0.1"})}, {"port", 9}}));
    }

    void told(size_t n, const Message &message)
    {
        Node &node = nodes_[n];
        if (message.type == Type::prepare) {
            if (checkpoint_ != message.fields.at("checkpoint"))
                reported_.clear();
            checkpoint_ = message.fields.at("checkpoint");
        } else if (message.type == Type::place) {
            node.generation = message.fields.at("generation");
            const json &parent = message.fields.at("parent");
            Result<Fd> socket = connect_tcp(parent.at("addresses").get<std::vector<std::string>>(),
                                            parent.at("port"));
            if (!socket)
                fail(socket.error().text());
            node.tree = Channel::make(
                loop_, std::move(*socket),
                std::make_unique<Tls>(fmt::format("child/{}/{}", node.generation,
                                                  message.fields.at("index").get<uint32_t>()),
                                      *key_from_hex(parent.at("key"))));
            node.tree->on_frame = [](FrameKind, std::string_view) {};
        }
    }

    // ------------------------------------------------------------------------------- the command

    void connect_command()
    {
        Result<Fd> socket = connect_path(job_.root_socket());
        if (!socket)
            fail(socket.error().text());
        state_.clear();
        lost_ = false;
        follows_ = false;
        command_ = Channel::make(loop_, std::move(*socket));
        command_->on_message(Speaker::job, [this](const Message &message) { hear(message); });
    }

    void hear(const Message &message)
    {
        if (message.type == Type::state) {
            state_ = message.fields.at("state");
            if (state_ == "requested") { // ask for the ranks
                ranks_ = json::array();
                command_->send(Message(Type::status_wanted));
            }
        } else if (message.type == Type::status) {
            ranks_ = message.fields.at("ranks");
        } else if (message.type == Type::end) {
            state_.clear();
            lost_ = false;
            if (getenv("CRYO_FUZZ_SAY") != nullptr)
                fmt::print(stderr, "the command hears: {}\n", message.fields.dump());
            const bool from_its_begin = !std::exchange(follows_, false);
            if (from_its_begin && message.fields.value("ok", false) &&
                message.fields.contains("seq"))
                look_at_snapshot(message);
        }
    }

    void want_checkpoint(uint8_t how)
    {
        command_->send(
            Message(Type::checkpoint, {{"directory", store_},
                                       {"after", (how & 1) != 0 || ranks_here_ ? "none" : "stop"},
                                       {"keep", how >> 1 & 3},
                                       {"sync", false}}));
    }

    void look_at_snapshot(const Message &end)
    {
        if (ranks_.size() != end.fields.at("ranks"))
            fail(fmt::format("a snapshot of {} ranks, where there were {}",
                             end.fields.at("ranks").get<int>(), ranks_.size()));
        for (const json &rank : ranks_) {
            const std::string node = rank.at("node");
            const uint32_t number = rank.at("rank");
            if (node != "here" && reported_.count({node, number}) == 0)
                fail(fmt::format("rank {} of node {} has no image, and there is a snapshot", number,
                                 node));
        }
        const Result<SnapshotStore> store = SnapshotStore::open(end.fields.at("path"));
        const Snapshot *last = store ? store->find(end.fields.at("seq")) : nullptr;
        if (last == nullptr || !last->finished || last->images.size() != ranks_.size())
            fail("the snapshot is not there, or not of all ranks");
    }

    // ------------------------------------------------------------------------------------- steps

    void report(size_t n, Type type, json fields)
    {
        if (nodes_[n].up->open())
            nodes_[n].up->send(Message(type, std::move(fields)));
    }

    uint64_t number(uint8_t choice) const { return choice < 0xf0 ? checkpoint_ : choice; }

    void image(size_t n, uint32_t rank, uint8_t choice)
    {
        if (number(choice) == checkpoint_ && nodes_[n].up->open()) {
            reported_.insert({fmt::format("n{}", n), rank});
            // Writes the image there that a daemon would have written.
            for (const auto &entry : std::filesystem::recursive_directory_iterator(store_)) {
                const std::string name = entry.path().filename();
                if (!entry.is_directory() || !name.ends_with(".tmp"))
                    continue;
                const auto directory = entry.path() / rank_directory(rank);
                std::filesystem::create_directories(directory);
                std::ofstream(directory / image_name(100 + static_cast<int>(rank)))
                    << std::string(choice, '.');
                break;
            }
        }
        report(n, Type::image, {{"checkpoint", number(choice)}, {"rank", rank}, {"bytes", choice}});
    }

    void raw_report(size_t n, FrameKind kind, const std::string &body)
    {
        if (!nodes_[n].up->open())
            return;
        const Result<Message> message = unpack(Speaker::member, body);
        if (message && message->type == Type::image)
            reported_.insert({fmt::format("n{}", n), message->fields.at("rank")});
        nodes_[n].up->send(kind, body);
    }

    // Except checkpoints: they would write anywhere, and end the launcher, this process.
    void raw_command(const std::string &body)
    {
        const Result<Message> message = unpack(Speaker::command, body);
        if (!message || message->type != Type::checkpoint)
            command_->send(FrameKind::json, body);
    }

    void step(Script &script)
    {
        const uint8_t what = script.byte(), who = script.byte(), how = script.byte();
        const size_t n = who % nodes;
        const uint32_t rank = who / nodes % most_rank;
        switch (what % whats) {
        case 0:
            report(n, Type::rank,
                   {{"rank", rank},
                    {"ranks", how % (most_rank + 1)},
                    {"pid", 100 + rank},
                    {"space", how / 8 % 2 != 0 ? "a" : "b"}});
            break;
        case 1:
            report(n, Type::rank_gone, {{"rank", rank}});
            break;
        case 2:
            report(n, Type::placed,
                   {{"generation", how < 0xf0 ? nodes_[n].generation : uint64_t(how)}});
            break;
        case 3:
            report(n, Type::unplaced, {{"error", "trouble"}});
            break;
        case 4:
            report(n, Type::prepared, {{"checkpoint", number(how)}});
            break;
        case 5:
            report(n, Type::cut, {{"checkpoint", number(how)}, {"rank", rank}});
            break;
        case 6:
            image(n, rank, how);
            break;
        case 7:
            report(n, Type::image,
                   {{"checkpoint", number(how)}, {"rank", rank}, {"error", "none"}});
            break;
        case 8:
            report(n, Type::idle, {{"checkpoint", number(how)}});
            break;
        case 9:
            report(n, Type::alive,
                   {{"images", json::array({json{{"rank", rank}, {"bytes", how}}})}});
            break;
        case 10:
            look_at_its_images(n);
            nodes_[n].up->close();
            break;
        case 11:
            raw_report(n, FrameKind(how % 12), script.bytes(who));
            break;
        case 12:
            if (nodes_[n].tree && nodes_[n].tree->open())
                nodes_[n].tree->send(FrameKind::bookmark, script.bytes(how));
            break;
        case 13:
            if (nodes_[n].tree)
                nodes_[n].tree->close();
            break;
        case 14:
            want_checkpoint(how);
            break;
        case 15:
            command_->send(Message(Type::call_off));
            break;
        case 16:
            command_->send(Message(Type::continue_wanted));
            break;
        case 17:
            follows_ = true;
            command_->send(Message(Type::checkpoint, {{"directory", store_}, {"follow", true}}));
            break;
        case 18:
            raw_command(script.bytes(how));
            break;
        case 19:
            command_->close();
            connect_command();
            break;
        case 20:
            join(n);
            break;
        case 21:
            rank_comes(rank, how);
            break;
        case 22:
            if (rank_ && rank_->open())
                rank_->send(FrameKind(how % 12), script.bytes(who));
            break;
        case 23:
            if (rank_)
                rank_->close();
            break;
        case 25:
            report(n, Type::encoded, {{"checkpoint", number(how)}, {"bytes", how}});
            break;
        default:
            await_commit();
            break;
        }
    }

    // The rank has this process's pid, to which a job to be stopped would send a signal.
    void rank_comes(uint32_t rank, uint8_t how)
    {
        if (!ranks_here_)
            return;
        Result<Fd> socket = connect_path(job_.directory + "/here");
        if (!socket)
            fail(socket.error().text());
        rank_ = Channel::make(loop_, std::move(*socket));
        rank_->on_frame = [](FrameKind, std::string_view) {};
        const Hello hello = {.rank = rank, .ranks = how % (most_rank + 1), .pid = 1};
        std::string body(reinterpret_cast<const char *>(&hello), sizeof(hello));
        rank_->send(FrameKind::hello, body + (how / 8 % 2 != 0 ? "a" : "b"));
    }

    const bool ranks_here_;
    Loop loop_;
    Job job_;
    std::string store_;
    std::unique_ptr<Coordinator> coordinator_;
    std::array<Node, nodes> nodes_;
    std::shared_ptr<Channel> command_;
    std::shared_ptr<Channel> rank_;
    std::string state_;          // of the checkpoint, as reported to the command
    bool follows_ = false;       // the command follows an earlier checkpoint
    bool lost_ = false;          // a daemon that has to report an image has ended
    json ranks_ = json::array(); // when the checkpoint began
    uint64_t checkpoint_ = 0;
    std::set<std::pair<std::string, uint32_t>> reported_; // images, with the reporting node
};

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***)
{
    setenv("CRYO_LISTEN", "127.0.0.1", 1);
    unsetenv("CRYO_DEADLINE");
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    Script script(data + 1, size - 1);
    Play play((data[0] & 1) != 0);
    play.act(script);
    return 0;
}
