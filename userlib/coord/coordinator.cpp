// SPDX-License-Identifier: Apache-2.0
// The coordinator's knowledge of the job: nodes, ranks and the tree. What it does
// in a checkpoint is in coordinator_checkpoint.cpp, commands are in coordinator_commands.cpp.
#include "coord/coordinator.hpp"
#include "base/print.hpp"

#include "coord/spread.hpp"
#include "sys/own_variable.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::coord {

using nlohmann::json;

namespace {

constexpr std::chrono::seconds longest_arrival{2}; // of all ranks, after the first
constexpr std::chrono::seconds longest_start{3};   // of a launcher whose ranks are unknown
constexpr int64_t look_soon_ms = 20;
constexpr int64_t look_later_ms = 250;
constexpr size_t most_waiting = 1 << 20; // bytes, of refusals
constexpr size_t most_told = 200;        // of the name of a node with a number behind it

uint32_t fanout()
{
    const char *wanted = sys::own_variable("CRYO_FANOUT");
    const int count = wanted != nullptr ? atoi(wanted) : 0;
    return count > 0 ? static_cast<uint32_t>(count) : 16;
}

std::string list_of(const std::vector<uint32_t> &ranks)
{
    constexpr size_t most = 8;
    std::string text;
    for (size_t i = 0; i < ranks.size() && i < most; i++)
        text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
    return ranks.size() <= most ? text : fmt::format("{} and {} more", text, ranks.size() - most);
}

} // namespace

Coordinator::Coordinator(Loop &loop, const Job &job, const std::string &node)
    : loop_(loop), job_(job),
      local_(loop, job, node, [this](const Message &message) { hear(0, message); })
{
    members_[0].name = node;
}

Coordinator::~Coordinator() = default;

Result<void> Coordinator::begin()
{
    launcher_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, job_.launcher, 0)));
    if (!launcher_)
        return Error::from_errno(fmt::format("process {}", job_.launcher), errno);
    loop_.watch(launcher_.get(), POLLIN, [this](short) { launcher_gone(); });
    if (Result<void> kept = local_.keep_port(own_address()); !kept)
        return kept;
    if (Result<void> listening = local_.listen_to_ranks(); !listening)
        return listening;
    Result<Fd> commands = listen_at(job_.root_socket());
    if (!commands)
        return commands.error();
    commands_ = std::move(*commands);
    loop_.watch(commands_.get(), POLLIN, [this](short) { accept_command(); });
    local_.on_join = [this](const std::shared_ptr<Channel> &channel, const std::string &node,
                            const Message &first) { joined(channel, node, first); };
    local_.on_progress = [this] { look_at_tree(); };
    local_.on_state = [this](const bookmark::StateEntry &state) {
        to_watchers(Message(Type::missing, {{"rank", state.rank},
                                            {"node", ranks_.count(state.rank) != 0
                                                         ? members_[ranks_[state.rank].member].name
                                                         : ""},
                                            {"text", bookmark::describe(state)}}));
    };
    local_.on_wanted = [this] { program_wants(); };
    if (const char *own = sys::own_variable("CRYO_LISTEN"); own != nullptr && *own != 0)
        return local_.listen_to_daemons(); // the user has asked for it
    look_for_others();
    return {};
}

// A job of one node need not listen on the network. What the launcher has started
// here shows whether it is one; ranks that do not come, or of which nothing is
// known, are assumed to be elsewhere. Daemons there try for longer than that.
void Coordinator::look_for_others()
{
    if (!looks_) {
        looks_ = true;
        looked_from_ = Clock::now();
        first_rank_.reset();
    }
    if (!ranks_.empty() && !first_rank_)
        first_rank_ = Clock::now();
    const bool complete = !ranks_.empty() && ranks_.size() == expected_ranks_;
    if (complete || local_.listens_to_daemons()) {
        looks_ = false;
        return;
    }
    const auto now = Clock::now();
    const Spread spread = spread_of(job_.launcher);
    if (spread == Spread::several || (first_rank_ && now - *first_rank_ > longest_arrival) ||
        (spread == Spread::unknown && ranks_.empty() && now - looked_from_ > longest_start)) {
        looks_ = false;
        if (Result<void> done = local_.listen_to_daemons(); !done)
            lost_ = done.error().text();
        return;
    }
    const bool soon = now - looked_from_ < longest_start;
    loop_.after(soon ? look_soon_ms : look_later_ms, [this] {
        if (looks_)
            look_for_others();
    });
}

// --------------------------------------------------------------------------- nodes and ranks

void Coordinator::joined(const std::shared_ptr<Channel> &channel, const std::string &node,
                         const Message &first)
{
    const uint32_t number = next_member_++;
    // A connection is one node. Several hosts may have one name (localhost), and a false node may
    // take that of another one. No node's own name has a slash in it.
    const bool taken =
        std::ranges::any_of(members_, [&](const auto &one) { return one.second.name == node; });
    Member &member = members_[number];
    // A command takes no longer name than a node may have.
    member.name = taken ? fmt::format("{}/{}", node.substr(0, most_told), number) : node;
    member.addresses = first.fields.at("addresses").get<std::vector<std::string>>();
    member.port = first.fields.at("port");
    member.channel = channel;
    channel->on_message(Speaker::member,
                        [this, number](const Message &message) { hear(number, message); });
    channel->on_end = [this, number] { member_gone(number); };
    channel->send(Message(Type::joined));
}

void Coordinator::member_gone(uint32_t number)
{
    const auto at = members_.find(number);
    if (at == members_.end())
        return;
    std::vector<uint32_t> ranks;
    for (const auto &[rank, place] : ranks_) {
        if (place.member == number)
            ranks.push_back(rank);
    }
    const std::string name = at->second.name;
    members_.erase(at);
    for (const uint32_t rank : ranks)
        rank_left(number, rank);
    if (!ranks.empty())
        lost_ = fmt::format("the daemon of node {} has ended: its ranks ({}) cannot be reached",
                            name, list_of(ranks));
    if (now_ && !ranks.empty())
        give_up(lost_, ECONNRESET);
    // Ranks may have ended whose frozen copies it was writing.
    if (now_ && std::ranges::any_of(now_->ranks, [&](const auto &one) {
            return one.second.member == number && now_->images.count(one.first) == 0;
        }))
        give_up(fmt::format("the daemon of node {} has ended before its images were there", name),
                ECONNRESET);
    if (now_ && now_->awaited.erase(number) != 0 && now_->awaited.empty())
        all_have_answered();
    look_at_early();
}

void Coordinator::hear(uint32_t member, const Message &message)
{
    const json &fields = message.fields;
    if (const auto at = members_.find(member); at != members_.end())
        at->second.heard = Clock::now();
    const bool of_now = now_ && fields.value("checkpoint", uint64_t(0)) == now_->number;
    switch (message.type) {
    case Type::rank:
        rank_came(member, message);
        break;
    case Type::rank_gone:
        rank_left(member, fields.at("rank"));
        break;
    case Type::placed:
        if (fields.at("generation") == generation_)
            members_[member].placed = true;
        break;
    case Type::unplaced:
        members_[member].trouble = fields.at("error");
        break;
    case Type::prepared:
        if (of_now)
            prepared(member, message);
        break;
    case Type::cut:
        if (of_now && speaks_for(member, fields.at("rank")) && images_are_due(member)) {
            now_->cut[fields.at("rank")] = true;
            now_->progress.try_emplace(fields.at("rank"), Progress{0, Clock::now(), Clock::now()});
            look_at_images();
        }
        break;
    case Type::image:
        if (of_now && speaks_for(member, fields.at("rank")) &&
            (fields.contains("error") || images_are_due(member)))
            image_came(message);
        break;
    case Type::local:
        if (of_now && now_->request.contains("local") && speaks_for(member, fields.at("rank")) &&
            images_are_due(member))
            image_on_node(fields.at("rank"));
        break;
    case Type::alive:
        look_at_progress(member, message);
        break;
    case Type::idle:
        if (of_now)
            idle(member);
        break;
    default:
        break;
    }
    look_at_early();
}

// A daemon may only report on the ranks that it had when the checkpoint began.
bool Coordinator::speaks_for(uint32_t member, uint32_t rank)
{
    const auto at = now_->ranks.find(rank);
    if (at != now_->ranks.end() && at->second.member == member)
        return true;
    expel(member, fmt::format("speaks for rank {}, which is not its own", rank));
    return false;
}

// No rank asks for its image before all of them stand still, of which this node's part of the
// tree knows first. Otherwise a report of one image would end the wait for ranks (--time). The
// daemon that reports it may have been deceived by the one above it in the tree: it stays.
bool Coordinator::images_are_due(uint32_t member)
{
    const bookmark::Node *node = local_.node();
    const bool over = node != nullptr && node->outcome() != bookmark::Node::Outcome::working;
    if (now_->asked && node != nullptr && (over || node->at_cut()))
        return true;
    const auto at = members_.find(member);
    if (now_->stage == Stage::cancelling || at == members_.end())
        return false;
    give_up(fmt::format("the daemon of node {} has an image of a rank before all ranks stand still",
                        at->second.name),
            EPROTO);
    return false;
}

// Ends the connection of a daemon that is not one of Cryo's, or a broken one.
void Coordinator::expel(uint32_t member, const std::string &why)
{
    const auto at = members_.find(member);
    if (at == members_.end())
        return;
    print(stderr, "mpi-daemon: the daemon of node {} {}\n", at->second.name, why);
    if (at->second.channel)
        at->second.channel->refuse();
}

void Coordinator::rank_came(uint32_t member, const Message &message)
{
    const std::string space = message.fields.at("space");
    const uint32_t rank = message.fields.at("rank");
    const uint32_t ranks = message.fields.at("ranks");
    if (space != space_ && ranks_.empty()) { // the next mpirun of a script
        space_ = space;
        built_ = false;
        lost_.clear();
        expected_ranks_ = ranks;
    }
    if (space != space_) {
        lost_ = "two MPI jobs run under it at once; start each mpirun under a cr_run of its own";
        return;
    }
    if (ranks_.empty())
        expected_ranks_ = ranks;
    if (rank >= ranks) {
        expel(member, fmt::format("has rank {} of {}", rank, ranks));
        return;
    }
    if (ranks != expected_ranks_) {
        refuse_rank(member, message,
                    fmt::format("node {} has rank {} of {}, where there are {}",
                                members_[member].name, rank, ranks, expected_ranks_));
        return;
    }
    const auto [at, is_new] = ranks_.try_emplace(rank, RankPlace{member, message.fields.at("pid")});
    if (!is_new) {
        refuse_rank(member, message,
                    fmt::format("nodes {} and {} both have rank {}",
                                members_[at->second.member].name, members_[member].name, rank));
        return;
    }
    if (ranks_.size() == expected_ranks_ && !built_)
        build_tree();
}

// Anything of the user's on a node can say that it is a rank: that ends its own connection, and no
// daemon. Which of two is the right one is known only once all ranks are there, and the tree
// stands.
void Coordinator::refuse_rank(uint32_t member, const Message &rank, const std::string &why)
{
    const std::shared_ptr<Channel> channel = members_[member].channel;
    if (channel && channel->waiting() > most_waiting) {
        expel(member, "does not read what its ranks are refused for");
        return;
    }
    print(stderr, "mpi-daemon: {}\n", why);
    refused_ = why;
    if (lost_.empty() && !complete())
        lost_ = why;
    tell(member, Message(Type::rank_refused, {{"rank", rank.fields.at("rank")},
                                              {"pid", rank.fields.at("pid")},
                                              {"error", why}}));
}

void Coordinator::rank_left(uint32_t member, uint32_t rank)
{
    const auto at = ranks_.find(rank);
    if (at == ranks_.end() || at->second.member != member)
        return;
    ranks_.erase(at);
    if (lost_.empty())
        lost_ = fmt::format("rank {} has ended", rank);
    if (ranks_.empty()) {
        built_ = false;
        space_.clear();
        lost_.clear();
        refused_.clear();
        if (!looks_)
            look_for_others(); // for the next mpirun of a script
    }
    // The image of a rank that has a frozen copy is still being written.
    if (now_ && now_->stage != Stage::cancelling && now_->images.count(rank) == 0 &&
        now_->cut.count(rank) == 0)
        give_up(fmt::format("rank {} has ended", rank), ESRCH);
}

void Coordinator::build_tree()
{
    // Daemon 0 of the tree is this one, with or without ranks.
    std::vector<uint32_t> members = {0};
    std::map<uint32_t, std::vector<bookmark::WorldRank>> on;
    for (const auto &[rank, place] : ranks_)
        on[place.member].push_back(rank);
    for (const auto &[member, ranks] : on) {
        if (member != 0)
            members.push_back(member);
    }
    std::vector<std::vector<bookmark::WorldRank>> ranks_of;
    ranks_of.reserve(members.size());
    for (const uint32_t member : members)
        ranks_of.push_back(on[member]);
    const bookmark::Topology tree(std::move(ranks_of), fanout());
    built_ = true;
    generation_++;
    // Each key is sent only to the two daemons that it is for, over their own connections.
    std::vector<std::string> keys;
    for (uint32_t d = 0; d < members.size(); d++)
        keys.push_back(to_hex(random_key()));
    for (uint32_t d = 0; d < members.size(); d++) {
        Member &member = members_[members[d]];
        member.index = d;
        member.placed = false;
        json runs = json::array();
        for (const bookmark::Routes::Run &run : tree.routes(d).runs)
            runs.push_back({run.first, run.last, run.child});
        Message message(Type::place, {{"generation", generation_},
                                      {"index", d},
                                      {"daemons", tree.children(d)},
                                      {"ranks", tree.ranks(d)},
                                      {"runs", runs}});
        for (const uint32_t child : tree.children(d))
            message.fields["keys"].push_back(keys[child]);
        if (d != 0) {
            const uint32_t parent = members[tree.parent(d)];
            message.fields["parent"] = {
                {"addresses", parent == 0 ? local_.tcp().addresses : members_[parent].addresses},
                {"port", parent == 0 ? local_.tcp().port : members_[parent].port},
                {"key", keys[d]}};
        }
        tell(members[d], message);
    }
}

void Coordinator::tell(uint32_t member, const Message &message)
{
    const auto at = members_.find(member);
    if (at == members_.end())
        return;
    if (at->second.channel)
        at->second.channel->send(message);
    else
        local_.command(message);
}

void Coordinator::tell_all(const Message &message)
{
    std::vector<uint32_t> all;
    for (const auto &[number, member] : members_)
        all.push_back(number);
    for (const uint32_t number : all)
        tell(number, message);
}

Result<void> Coordinator::complete() const
{
    if (!lost_.empty())
        return Error(ESRCH, fmt::format("the job cannot be saved: {}", lost_));
    if (expected_ranks_ == 0 || ranks_.empty())
        return Error(EAGAIN, "no rank has called MPI_Init yet, or none is an MPI program that Cryo "
                             "knows");
    if (ranks_.size() < expected_ranks_) {
        std::vector<uint32_t> missing;
        for (uint32_t rank = 0; rank < expected_ranks_; rank++) {
            if (ranks_.count(rank) == 0)
                missing.push_back(rank);
        }
        return Error(EAGAIN,
                     fmt::format("not all ranks are there yet: rank {} has not called MPI_Init, or "
                                 "its node does not reach {} (port {})",
                                 list_of(missing), job_.id, local_.tcp().port));
    }
    for (const auto &[number, member] : members_) {
        if (!member.trouble.empty())
            return Error(EHOSTUNREACH, fmt::format("node {}: {}", member.name, member.trouble));
        const bool has_ranks =
            number == 0 || std::any_of(ranks_.begin(), ranks_.end(), [n = number](const auto &one) {
                return one.second.member == n;
            });
        if (has_ranks && !member.placed)
            return Error(EAGAIN,
                         fmt::format("node {} is not connected to the others yet", member.name));
    }
    return {};
}

void Coordinator::launcher_gone()
{
    loop_.forget(launcher_.get());
    ending_ = true;
    lost_ = "it has ended";
    look_at_early();
    if (now_ && (now_->stage != Stage::running || now_->cut.size() < now_->ranks.size()))
        give_up("the job has ended", ESRCH);
    if (!now_)
        loop_.stop();
}

} // namespace cryo::coord
