// SPDX-License-Identifier: Apache-2.0
#include "coord/coordinator.hpp"

#include "base/printable.hpp"
#include "coord/parameters.hpp"
#include "coord/spread.hpp"
#include "look/members.hpp"
#include "sys/own_variable.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

// How long ranks may take to end when their launcher has, before they count as left; until every
// daemon that is not lost has renewed its lease, if that is longer.
constexpr std::chrono::seconds longest_end{20};
// In which ranks end that the launcher has ended before itself: a kill takes effect when the
// machine has time for it. Else the program's own exit status would count as a fault.
constexpr std::chrono::milliseconds usual_end{5000};
constexpr std::chrono::seconds sign_of_life{10}; // between what the supervisor is told
// How long the end of a rank waits whose MPI library has given up: perhaps since it misses another
// rank, of whose end this daemon is about to hear.
constexpr std::chrono::milliseconds longest_doubt{500};
constexpr int64_t early_ms = 100; // between what commands are told that came early

Coordinator::Coordinator(Loop &loop, const Job &job, const std::string &node, Fd supervisor,
                         Ways ways)
    : loop_(loop), job_(job),
      local_(
          loop, job, node, [this](const Message &message) { hear(0, message); }, std::move(ways)),
      members_(local_), ranks_(job.id, local_, members_),
      others_(loop, job.launcher, local_, ranks_), commands_(loop), early_(loop, ranks_),
      leases_(loop, bool(supervisor)), supervised_(std::move(supervisor), leases_.longest())
{}

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
    commands_.on_message = [this](const std::shared_ptr<Channel> &channel, const Message &message) {
        command(channel, message);
    };
    commands_.on_end = [this](const std::shared_ptr<Channel> &channel) {
        watchers_.remove(channel);
        early_.forget(channel);
    };
    if (Result<void> listening = commands_.listen(job_.root_socket()); !listening)
        return listening;
    local_.on_join = [this](const std::shared_ptr<Channel> &channel, const std::string &node,
                            const Message &first) { joined(channel, node, first); };
    local_.on_reports = [this](uint32_t child, const Message &message) {
        const auto now = now_;
        return !now || now->hear_joined(child, message);
    };
    local_.on_progress = [this] {
        if (const auto now = now_)
            now->look_at_tree();
    };
    local_.on_state = [this](const bookmark::StateEntry &state) {
        const auto at = ranks_.all().find(state.rank);
        watchers_.tell(
            Message(Type::missing,
                    {{"rank", state.rank},
                     {"node", at != ranks_.all().end() ? members_.name(at->second.member) : ""},
                     {"text", bookmark::describe(state)}}));
    };
    local_.on_wanted = [this] { program_wants(); };
    others_.on_several = [this] { supervised_.elsewhere(); };
    leases_.on_end = [this](uint32_t member) { lease_ended(member); };
    if (const char *own = sys::own_variable("CRYO_LISTEN"); own != nullptr && *own != 0)
        return local_.listen_to_daemons(); // the user has asked for it
    others_.look_for_them();
    return {};
}

// --------------------------------------------------------------------------- nodes and ranks

void Coordinator::joined(const std::shared_ptr<Channel> &channel, const std::string &node,
                         const Message &first)
{
    const uint32_t number = members_.add(channel, node, first).number;
    supervised_.elsewhere();
    channel->on_message(Speaker::member,
                        [this, number](const Message &message) { hear(number, message); });
    channel->on_end = [this, number] { member_gone(number); };
    Message answer(Type::joined);
    leases_.begin(number, answer);
    channel->send(answer);
}

// A daemon that is stopped, or behind a network that is torn, may never end its connection.
void Coordinator::lease_ended(uint32_t number)
{
    if (const Member *member = members_.find(number); member != nullptr && member->channel)
        member->channel->close();
    member_gone(number);
}

void Coordinator::member_gone(uint32_t number)
{
    const std::set<uint32_t> ranks = ranks_.of(number);
    const std::string named = ranks_.list_of(number);
    const std::optional<std::string> name = members_.remove(number);
    if (!name)
        return;
    if (const int64_t over = leases_.end(number); over != 0)
        supervised_.lost(*name, over);
    for (const uint32_t rank : ranks)
        rank_left(number, rank, false);
    std::string lost;
    if (!ranks.empty()) {
        lost = fmt::format("the daemon of node {} has ended: its ranks ({}) cannot be reached",
                           *name, named);
        ranks_.lose(lost);
    }
    if (const auto now = now_)
        now->member_gone(number, *name, lost);
    look_at_early();
    if (ending_)
        end();
}

void Coordinator::hear(uint32_t member, const Message &message)
{
    const json &fields = message.fields;
    Member *from = members_.find(member);
    if (from != nullptr)
        from->heard = std::chrono::steady_clock::now();
    switch (message.type) {
    case Type::rank:
        rank_came(member, message);
        break;
    case Type::rank_gone:
        rank_left(member, fields.at("rank"), fields.value("well", false));
        break;
    case Type::ends:
        rank_ends(member, message);
        break;
    case Type::renew:
        if (from != nullptr && from->channel)
            leases_.renew(member, *from->channel, message);
        break;
    case Type::leaving:
        leases_.leave(member);
        break;
    case Type::placed:
        ranks_.placed(member, fields.at("generation"));
        break;
    case Type::unplaced:
        members_.blame(member, fields.at("error"));
        break;
    default:
        if (const auto now = now_)
            now->hear(member, message);
        break;
    }
    if (supervised_.is_wanted() && !supervised_.has_run() && !ranks_.are_waited_for() &&
        ranks_.complete())
        tell_of_ranks();
    look_at_early();
}

void Coordinator::tell_of_ranks()
{
    const auto any = [this](bool (Coordinator::*is)(const RankPlace &) const) {
        return std::ranges::any_of(ranks_.all(),
                                   [&](const auto &one) { return (this->*is)(one.second); });
    };
    const bool unfenced = any(&Coordinator::is_unfenced);
    supervised_.running(unfenced || any(&Coordinator::is_elsewhere), unfenced);
}

bool Coordinator::is_elsewhere(const RankPlace &place) const
{
    return place.member != 0;
}

// The supervisor does not see its end, nor does that come with the end of a lease: on this node, if
// it is not below the supervisor (the launcher's parent), but below a server that the launcher has
// asked, such as sshd.
bool Coordinator::is_unfenced(const RankPlace &place) const
{
    const Result<capture::Relation> launcher = capture::relation_of(job_.launcher);
    return place.member == 0 && (!launcher || !capture::was_begun_by(place.pid, launcher->ppid, 0));
}

void Coordinator::rank_came(uint32_t member, const Message &message)
{
    endings_.comes(ranks_.all().empty());
    ranks_.came(member, message);
    if (ranks_.are_there())
        endings_.all_have_come();
}

// What has gone without a word, at an end that others are about to make, is the reason for it.
void Coordinator::rank_ends(uint32_t member, const Message &message)
{
    const uint32_t rank = message.fields.at("rank");
    const auto at = ranks_.all().find(rank);
    const bool is_own = at != ranks_.all().end() && at->second.member == member;
    if (!is_own || ending_ || !supervised_.is_wanted()) {
        members_.tell(member, Message(Type::may_end, {{"rank", rank}}));
        return;
    }
    const bool by_itself = message.fields.at("by_itself").get<bool>();
    const bool may_end = by_itself ? endings_.ends(rank) : endings_.gives_up(rank);
    ending_ranks_.emplace_back(member, rank);
    if (may_end)
        let_ranks_end();
    else if (ending_ranks_.size() == 1)
        loop_.after(longest_doubt.count(), [this] {
            if (ending_ranks_.empty())
                return; // a fault was seen
            endings_.let_go();
            let_ranks_end();
        });
}

void Coordinator::let_ranks_end()
{
    for (const auto &[member, rank] : std::exchange(ending_ranks_, {}))
        members_.tell(member, Message(Type::may_end, {{"rank", rank}}));
}

void Coordinator::rank_left(uint32_t member, uint32_t rank, bool well)
{
    if (!ranks_.left(member, rank))
        return;
    endings_.gone(rank, well);
    if (endings_.is_decided())
        let_ranks_end();
    if (ranks_.all().empty())
        others_.look_for_them(); // for the next mpirun of a script
    if (const auto now = now_)
        now->rank_left(rank);
    if (ending_ && supervised_.has_run() && ranks_.all().empty())
        tell_of_launcher(); // the supervisor need not wait for a checkpoint
    if (ending_)
        end();
}

void Coordinator::launcher_gone()
{
    loop_.forget(launcher_.get());
    ending_ = true;
    endings_.launcher_ended();
    let_ranks_end();
    ranks_.lose("it has ended");
    look_at_early();
    if (const auto now = now_)
        now->launcher_gone();
    // The supervisor must know whether all ranks have ended.
    if (supervised_.is_wanted()) {
        tell_of_checkpoint();
        if (supervised_.has_run() && ranks_.all().empty())
            tell_of_launcher();
        loop_.after(usual_end.count(), [this] { tell_of_launcher(); });
        constexpr int64_t shortest = std::chrono::milliseconds(longest_end).count();
        loop_.after(std::max(shortest, leases_.longest() / 1'000'000), [this] {
            ranks_waited_for_ = true;
            end();
        });
    }
    end();
}

// A rank that is ending needs time to give its memory back.
void Coordinator::tell_of_launcher()
{
    const auto goes_on = [](const auto &one) {
        return one.second.member != 0 || !capture::has_ended(one.second.pid);
    };
    if (!std::exchange(launcher_told_, true))
        supervised_.launcher_ended(std::ranges::any_of(ranks_.all(), goes_on), endings_);
}

// Of one that goes on without the ranks, as long as it does.
void Coordinator::tell_of_checkpoint()
{
    if (!now_)
        return;
    supervised_.saving();
    loop_.after(std::chrono::milliseconds(sign_of_life).count(), [this] { tell_of_checkpoint(); });
}

// When the launcher has ended, and no checkpoint is under way.
void Coordinator::end()
{
    const bool any_left = members_.all().size() > 1 || !ranks_.all().empty();
    if (ended_ || now_ || (supervised_.is_wanted() && any_left && !ranks_waited_for_))
        return;
    ended_ = true;
    tell_of_launcher();
    std::set<std::string> there;
    int64_t until = 0;
    for (const auto &[rank, place] : ranks_.all()) {
        if (!leases_.has(place.member))
            there.insert(members_.name(place.member));
    }
    for (const auto &[number, member] : members_.all())
        until = std::max(until, leases_.over(number));
    supervised_.ended(there, until);
    loop_.stop();
}

// ------------------------------------------------------------------------------------ commands

void Coordinator::command(const std::shared_ptr<Channel> &channel, const Message &message)
{
    switch (message.type) {
    case Type::checkpoint:
        want(channel, message.fields);
        break;
    case Type::status_wanted:
        channel->send(status());
        break;
    case Type::call_off:
        if (early_.forget(channel))
            channel->send(end_of(Error(ECANCELED, "it was called off")));
        else if (const auto now = now_)
            now->call_off();
        break;
    case Type::continue_wanted:
        members_.tell_all(Message(Type::go_on));
        // Answered when the ranks have gone on and said so.
        if (now_ && now_->is_held())
            watchers_.add(channel);
        else
            channel->send(Message(Type::end, {{"ok", true}}));
        break;
    default:
        break;
    }
}

Message Coordinator::status() const
{
    json ranks = json::array();
    for (const auto &[number, place] : ranks_.all())
        ranks.push_back(
            {{"rank", number}, {"pid", place.pid}, {"node", members_.name(place.member)}});
    const Result<void> ready = ranks_.complete();
    return Message(Type::status, {{"job", job_.id},
                                  {"launcher", job_.launcher},
                                  {"state", watchers_.state()},
                                  {"ranks", ranks},
                                  {"expected", ranks_.expected()},
                                  {"ready", bool(ready)},
                                  {"why", ready ? "" : ready.error().text()},
                                  {"checkpoints", checkpoints_}});
}

// --------------------------------------------------------------------------------- checkpoints

// Starts the requests that wait for ranks, or refuses those that wait in vain.
void Coordinator::look_at_early()
{
    if (early_.empty() && !again_)
        return;
    if (ranks_.are_waited_for()) {
        tell_early();
        return;
    }
    for (const EarlyRequest &one : early_.take())
        want(one.channel, one.request);
    if (again_ && !now_)
        begin_for_program();
}

// What they wait for changes with every rank that comes: commands hear of it now, and then in
// intervals.
void Coordinator::tell_early()
{
    if (early_.empty() || std::exchange(tells_early_, true))
        return;
    early_.tell(ranks_.complete().error().text());
    loop_.after(early_ms, [this] {
        tells_early_ = false;
        look_at_early();
    });
}

// MPI_Ckpt() or global_ckpt() was called, and no checkpoint under way serves that call.
void Coordinator::program_wants()
{
    if (now_ && now_->is_preparing())
        now_->serve_program();
    else if (now_ || ranks_.are_waited_for())
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
    if (request.contains("local") && !of_job.redundancy.empty())
        request["redundancy"] = of_job.redundancy;
    want(nullptr, request);
    if (now_)
        now_->serve_program();
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
        watchers_.add(channel);
        watchers_.say(watchers_.state());
        return;
    }
    if (now_) {
        refuse(Error(EBUSY, now_->is_held()
                                ? "the job is stopped; continue it with --cont first"
                                : "a checkpoint of this job is under way; --status follows it"));
        return;
    }
    if (Result<void> ready = ranks_.complete(); !ready) {
        if (channel && ready.error().code() == EAGAIN) {
            early_.add(channel, request);
            look_at_early();
        } else {
            refuse(ready.error());
        }
        return;
    }
    if (channel)
        watchers_.add(channel);
    const auto now = std::make_shared<Checkpoint>(++checkpoints_, request, surroundings());
    now_ = now;
    if (Result<void> begun = now->begin(); !begun) {
        watchers_.release();
        now_.reset();
        watchers_.keep("error");
        refuse(begun.error());
    }
}

Surroundings Coordinator::surroundings()
{
    return {.loop = loop_,
            .job = job_,
            .local = local_,
            .members = members_,
            .ranks = ranks_,
            .watchers = watchers_,
            // Images may be complete long after the launcher's end, when another has its number.
            .end_launcher =
                [this] {
                    endings_.are_wanted();
                    syscall(SYS_pidfd_send_signal, launcher_.get(), SIGTERM, nullptr, 0);
                },
            .over = [this] { checkpoint_over(); }};
}

void Coordinator::checkpoint_over()
{
    now_.reset();
    if (ending_)
        end();
    else if (again_)
        loop_.after(0, [this] { look_at_early(); });
}

} // namespace cryo::coord
