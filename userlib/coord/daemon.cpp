// SPDX-License-Identifier: Apache-2.0
#include "coord/daemon.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

namespace cryo::coord {

namespace {

// Clients on another host may be anyone.
constexpr Strangers::Limits from_elsewhere = {.most = 16, .milliseconds = 3000};
constexpr uint32_t most_first_message = 16384;

// The name goes into messages and metadata.
bool is_node_name(const std::string &name)
{
    return !name.empty() && name.size() <= 256 &&
           std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~' && c != '/'; });
}

} // namespace

Daemon::Daemon(Loop &loop, Job job, std::string node, Report report, Ways ways)
    : loop_(loop), job_(std::move(job)), name_(std::move(node)), report_(std::move(report)),
      ways_(std::move(ways)), strangers_(loop, from_elsewhere), ranks_(loop, report_),
      tree_(loop, ranks_, ways_, report_, tree_events()),
      joined_(loop, [this](const Message &message) { tree_.tell_parent(message); }),
      images_(loop, job_.id, name_, ranks_, tree_, ways_,
              [this](const Message &message) { say(message); }),
      lease_(loop, report_)
{
    ranks_.on_frame = [this](NodeRank &rank, FrameKind kind, std::string_view body) {
        rank_frame(rank, kind, body);
    };
    ranks_.on_end = [this](uint32_t number) { rank_ended(number); };
    ranks_.leashes().on_end = [this] { progress(); };
}

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
    return ranks_.listen(job_.directory + "/" + name_);
}

// ------------------------------------------------------------------------------------- ranks

void Daemon::rank_frame(NodeRank &rank, FrameKind kind, std::string_view body)
{
    // What has no place in the tree may be no rank of the job's: nothing that it says is passed on.
    if (kind == FrameKind::ending) {
        rank.well = true;
    } else if (kind == FrameKind::image && !rank.child) {
        images_.refuse(rank);
    } else if (kind == FrameKind::image) {
        images_.take(rank);
    } else if (kind == FrameKind::left && rank.child) {
        images_.left(rank, body);
    } else if (kind == FrameKind::bookmark && node() != nullptr && rank.child) {
        const auto *bytes = reinterpret_cast<const uint8_t *>(body.data());
        if (!node()->from_child(*rank.child, {bytes, body.size()}))
            rank.channel->refuse();
        progress();
    }
}

void Daemon::rank_ended(uint32_t number)
{
    NodeRank *rank = ranks_.find(number);
    if (rank == nullptr)
        return;
    const std::optional<uint32_t> child = rank->child;
    const bool was_told = !rank->news;
    Message gone(Type::rank_gone, {{"rank", number}});
    if (rank->well)
        gone.fields["well"] = true;
    // What is joined may be on its way still, and the end of the rank would come first.
    if (tree_.is_joined() && images_.is_frozen(*rank))
        report_(images_.cut_of(*rank));
    const bool was_saving = images_.part_from(*rank);
    ranks_.remove(number);
    if (was_saving)
        images_.report_failure(number, "it ended while its image was taken", ESRCH);
    if (was_told)
        report_(gone);
    if (node() != nullptr && child)
        node()->lost_child(*child);
    progress();
}

// The job has another one of this number; or what came is none of its ranks.
void Daemon::refuse_rank(const Message &message)
{
    const uint32_t number = message.fields.at("rank");
    const NodeRank *rank = ranks_.find(number);
    if (rank == nullptr || message.fields.at("pid") != rank->pid)
        return; // it has ended meanwhile
    const std::shared_ptr<Channel> channel = rank->channel;
    channel->send(FrameKind::refused, message.fields.at("error").get<std::string>());
    channel->close_when_sent();
    rank_ended(number);
}

// ----------------------------------------------------------------------------- other daemons

void Daemon::accept_daemon()
{
    Fd fd(accept4(tcp_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) {
        loop_.rest(tcp_.socket.get());
        return;
    }
    const std::string address = address_to(fd.get());
    be_quick(fd.get());
    const std::shared_ptr<Channel> channel = Channel::make(
        loop_, std::move(fd),
        std::make_unique<Tls>([this](const std::string &who) { return key_of(who); }));
    strangers_.meet(channel, address);
    Channel *at = channel.get();
    channel->on_secure = [this, at] {
        if (!meet(at->shared_from_this(), at->tls()->peer()))
            at->refuse();
    };
}

// The identity that a connection gives determines the key that it must have.
std::optional<Key> Daemon::key_of(const std::string &identity) const
{
    if (on_join && identity.starts_with(join_prefix)) {
        const std::string node = identity.substr(strlen(join_prefix));
        return is_node_name(node) ? std::optional(derived_key(job_.secret, identity))
                                  : std::nullopt;
    }
    const std::optional<Key> of_set = images_.set().key_of(identity);
    return of_set ? of_set : tree_.key_of(identity);
}

bool Daemon::meet(const std::shared_ptr<Channel> &channel, const std::string &who)
{
    if (const std::optional<uint32_t> child = tree_.child_of(who)) {
        strangers_.known(*channel);
        tree_.attach(channel, *child);
        return true;
    }
    if (images_.set().key_of(who)) {
        strangers_.known(*channel);
        images_.set().attach(channel, who);
        return true;
    }
    if (!on_join || !who.starts_with(join_prefix)) // the tree was rebuilt meanwhile
        return false;
    channel->limit(most_first_message);
    channel->on_message(Speaker::newcomer, [this, at = channel.get(), who](const Message &first) {
        const std::shared_ptr<Channel> one = at->shared_from_this();
        strangers_.known(*one);
        one->limit(most_body);
        on_join(one, who.substr(strlen(join_prefix)), first);
    });
    return true;
}

// ----------------------------------------------------------------------------- the coordinator

void Daemon::joined(const Message &message)
{
    lease_.begin(message);
    if (lease_.is_there())
        ranks_.leashes().want();
}

void Daemon::command(const Message &message)
{
    switch (message.type) {
    case Type::renewed:
        lease_.granted(message);
        break;
    case Type::place:
        tree_.place(message);
        joined_.place(tree_.index(), tree_.nodes_below(), tree_.ranks_below());
        break;
    case Type::rank_refused:
        refuse_rank(message);
        break;
    case Type::may_end:
        ranks_.may_end(message.fields.at("rank"));
        break;
    case Type::prepare:
        said_.clear();
        is_alone_ = false;
        joined_.sum(message.fields.value("counted", false));
        images_.prepare(message);
        break;
    case Type::cancel:
        cancel(message);
        break;
    case Type::finish:
        said_.clear();
        images_.finish(message);
        loop_.after(0, [this] { progress(); }); // it may be all that this daemon was there for
        break;
    case Type::encode:
        images_.encode(message);
        break;
    case Type::look:
        joined_.look(message.fields.value("number", uint64_t(0)));
        images_.look();
        break;
    case Type::go_on:
        for (auto &[number, rank] : ranks_.all())
            kill(rank.pid, SIGCONT);
        break;
    default:
        break;
    }
}

void Daemon::cancel(const Message &message)
{
    said_.clear();
    images_.cancel(message.fields.at("checkpoint"));
    tree_.cancelled();
    report_(Message(Type::idle, {{"checkpoint", message.fields.at("checkpoint")}}));
    loop_.after(0, [this] { progress(); }); // as after `finish`
}

// Of the images, to the first daemon. That one itself joins nothing.
void Daemon::say(const Message &message)
{
    const bool is_first = tree_.index() == 0;
    const bool is_of_images =
        message.type == Type::cut || message.type == Type::local || message.type == Type::image;
    if (!tree_.is_joined() || is_first || (is_alone_ && is_of_images) || !joined_.add(message))
        report_(message);
    else if (is_of_images)
        said_.push_back(message);
}

// The tree is another one, since the next mpirun of a script has ranks while the images of those of
// the last one are still being written. What was on its way is said straight to the first daemon.
void Daemon::say_again()
{
    is_alone_ = true;
    for (const Message &message : std::exchange(said_, {}))
        report_(message);
}

TreePlace::Events Daemon::tree_events()
{
    return {.progress = [this] { progress(); },
            .state =
                [this](const bookmark::StateEntry &state) {
                    if (on_state)
                        on_state(state);
                },
            .wanted =
                [this] {
                    if (on_wanted)
                        on_wanted();
                },
            .reports =
                [this](uint32_t child, const Message &message) {
                    return on_reports ? on_reports(child, message) : joined_.take(message);
                },
            .command = [this](const Message &message) { command(message); },
            .parted = [this] { say_again(); }};
}

void Daemon::progress() const
{
    if (on_progress)
        on_progress();
}

} // namespace cryo::coord
