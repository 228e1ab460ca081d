// SPDX-License-Identifier: Apache-2.0
#include "bookmark/rank.hpp"

#include <algorithm>
#include <cassert>

namespace cryo::bookmark {

namespace {

constexpr CommId kVersions = 0x56455253494f4e53;

} // namespace

Rank::Rank(const Config &config, Link &link, Mpi &mpi)
    : self_(config.self), threads_(config.threads), memory_(config.memory), link_(link), mpi_(mpi),
      comms_(memory_), retired_(memory_), gone_(memory_), receives_(mpi, memory_), needed_(memory_),
      needs_(memory_), versions_(&made(kVersions, 1, {}, config.ranks))
{}

Comm &Rank::made(CommId id, uint32_t peer_count, std::span<const WorldRank> peers, uint32_t members)
{
    auto [at, is_new] = comms_.try_emplace(id, id, peer_count, peers, members, threads_, memory_);
    assert(is_new);
    if (phase_ == Phase::asked)
        announce(at->second, 1); // other members may have entered collectives on it already
    return at->second;
}

void Rank::freed(Comm &comm)
{
    tick(comm);
    dropped(comm);
}

void Rank::dropped(Comm &comm)
{
    comm.freed = true;
    lingering_++;
    forget_freed();
}

void Rank::forget_freed()
{
    if (lingering_ == 0)
        return;
    for (auto at = comms_.begin(); at != comms_.end();) {
        Comm &comm = at->second;
        if (!comm.freed || comm.lasting || comm.requests != 0 || receives_.is_arriving(comm)) {
            ++at;
            continue;
        }
        comm.for_used([&](WorldRank rank, const Tally &sent, const Tally &received) {
            Traffic &traffic = retired_[rank];
            traffic.sent += sent;
            traffic.received += received;
        });
        if (comm.members() > 1) // nobody else could be behind
            gone_.push_back({.id = comm.id(), .clock = comm.clock, .members = comm.members()});
        lingering_--;
        at = comms_.erase(at);
    }
}

void Rank::announce(const Comm &comm, uint32_t heard)
{
    Message m = message(MessageType::raise);
    m.clocks.push_back({.comm = comm.id(),
                        .members = comm.members(),
                        .heard = heard,
                        .low = comm.clock,
                        .high = comm.clock});
    send(m);
}

void Rank::tick(Comm &comm)
{
    uint64_t now = ++comm.clock;
    if (phase_ != Phase::asked)
        return;
    if (now == comm.target)
        behind_--;
    if (now > comm.target) {
        comm.target = now;
        announce(comm, 0);
    }
}

void Rank::enter(Comm &comm)
{
    inside_++; // before tick(): a handler between the two must not treat this rank as stoppable
    inside_comm_ = comm.id();
    tick(comm);
}

void Rank::leave()
{
    inside_--;
}

void Rank::start(Comm &comm)
{
    tick(comm);
}

// Ranks told of it in between run on, as this one does, to the next one, the same at all members.
void Rank::refused(Comm &comm)
{
    const uint64_t before = comm.clock--;
    if (phase_ == Phase::asked && before == comm.target)
        behind_++;
}

bool Rank::must_hold() const
{
    switch (phase_) {
    case Phase::idle:
        return false;
    case Phase::asked:
        return inside_ == 0 && epochs_ == 0 && behind_ == 0 && !is_needed();
    case Phase::cut:
    case Phase::drained:
    case Phase::saved:
    case Phase::resuming:
        return true;
    }
    return true;
}

bool Rank::is_needed(bool by_name) const
{
    return std::any_of(needed_.begin(), needed_.end(), [&](const Needed &n) {
        return !(by_name && n.comm) && sent_to(n.by).messages <= n.sent;
    });
}

void Rank::waits_for(Comm &comm, int source)
{
    if (phase_ != Phase::asked || must_hold())
        return;
    // Count what has arrived, including messages held by matched probes: a low `have` would make
    // the sender believe that a message is still in flight.
    receives_.sweep();
    receives_.absorb();
    drain_all();
    Need need{.from = self_};
    if (source == kAnySource) {
        need.comm = comm.id();
        need.have = received().messages;
    } else {
        need.to = comm.world(source);
        need.have = received_from(need.to).messages;
        if (need.to == self_)
            return;
    }
    auto same = std::find_if(needs_.begin(), needs_.end(),
                             [&](const Need &n) { return n.to == need.to && n.comm == need.comm; });
    if (same != needs_.end() && same->have == need.have)
        return;
    if (same == needs_.end())
        needs_.push_back(need);
    else
        *same = need;
    Message m = message(MessageType::need);
    m.need = need;
    send(m);
}

void Rank::waits_no_more()
{
    for (const Need &need : needs_) {
        Message m = message(MessageType::unneed);
        m.need = need;
        send(m);
    }
    needs_.clear();
}

void Rank::handle(Bytes bytes)
{
    Message m(MessageType::state, 0, memory_);
    if (!unpack(bytes, m))
        return;
    if (m.type == MessageType::request) {
        if (phase_ == Phase::resuming)
            next_epoch_ = m.epoch;
        else if (phase_ == Phase::idle)
            begin(m.epoch);
        return;
    }
    if (m.type == MessageType::abandon && next_epoch_ == m.epoch)
        next_epoch_.reset();
    if (m.epoch != epoch_ || phase_ == Phase::idle || phase_ == Phase::resuming)
        return;
    switch (m.type) {
    case MessageType::targets:
        acks_++;
        run_to_targets(m);
        break;
    case MessageType::need:
        acks_++;
        needed(m.need);
        break;
    case MessageType::unneed:
        std::erase_if(
            needed_, [&](const Needed &n) { return n.by == m.need.from && n.comm == m.need.comm; });
        break;
    case MessageType::expected:
        if (!must_hold()) { // the `ready` was wrong: save nothing
            Message no = message(MessageType::abandon);
            no.state = {.rank = self_, .doing = Doing::corrupt};
            send(no);
            break;
        }
        for (const CountEntry &e : m.counts)
            expected_ += e.tally;
        withdrawn_ = false;
        phase_ = Phase::cut;
        break;
    case MessageType::go:
    case MessageType::abandon:
        end(m.type == MessageType::go);
        break;
    case MessageType::inquire:
        if (!(phase_ == Phase::asked && ready_for_ == acks_ && must_hold()) &&
            phase_ != Phase::saved) {
            Message answer = message(MessageType::state);
            answer.state = state();
            send(answer);
        }
        break;
    default:
        break;
    }
}

void Rank::begin(uint32_t epoch)
{
    epoch_ = epoch;
    phase_ = Phase::asked;
    pending_ = true;
    behind_ = acks_ = 0;
    ready_for_.reset();
    needed_.clear();
    needs_.clear();
    expected_ = {};
    forget_freed();
    Message m = message(MessageType::clocks);
    for (const Gone &gone : gone_)
        m.clocks.push_back({.comm = gone.id,
                            .members = gone.members,
                            .heard = 1,
                            .low = gone.clock,
                            .high = gone.clock});
    for (auto &[id, comm] : comms_) {
        uint64_t now = comm.clock;
        comm.target = now;
        m.clocks.push_back(
            {.comm = id, .members = comm.members(), .heard = 1, .low = now, .high = now});
    }
    send(m);
}

void Rank::end(bool saved)
{
    (saved ? saved_version_ : failed_version_) = versions_->clock;
    cuts_ += saved;
    needed_.clear();
    needs_.clear();
    behind_ = 0;
    if (phase_ != Phase::asked)
        gone_.clear(); // after a cut all members have freed them
    if (phase_ == Phase::asked) {
        phase_ = Phase::idle;
        pending_ = false;
    } else {
        phase_ = Phase::resuming; // serve() does the rest, because it may call the library
    }
}

void Rank::run_to_targets(const Message &m)
{
    for (const ClockEntry &e : m.clocks) {
        auto at = comms_.find(e.comm);
        if (at == comms_.end())
            continue; // freed since: no later collective on it exists
        Comm &comm = at->second;
        if (e.high <= comm.target)
            continue;
        if (comm.clock >= comm.target && comm.clock < e.high)
            behind_++;
        comm.target = e.high;
    }
}

void Rank::needed(const Need &need)
{
    if (need.from == self_)
        return;
    std::erase_if(needed_,
                  [&](const Needed &n) { return n.by == need.from && n.comm == need.comm; });
    uint64_t sent = sent_to(need.from).messages;
    if (need.comm)
        needed_.push_back({need.from, need.comm, sent});
    else if (sent <= need.have) // otherwise a message is in flight already
        needed_.push_back({need.from, 0, need.have});
}

void Rank::serve()
{
    switch (phase_) {
    case Phase::idle:
        return;
    case Phase::asked:
        receives_.sweep();
        // The sender of a message held by a matched probe may be unable to stop until it is taken.
        receives_.absorb();
        drain_all();
        mpi_.settled(false);
        if (must_hold()) {
            waits_no_more();
            if (ready_for_ != acks_)
                send_ready();
        }
        return;
    case Phase::cut:
        serve_cut();
        return;
    case Phase::drained:
    case Phase::saved:
        return;
    case Phase::resuming:
        receives_.repost();
        phase_ = Phase::idle;
        pending_ = false;
        if (next_epoch_)
            begin(*next_epoch_);
        next_epoch_.reset();
        return;
    }
}

void Rank::serve_cut()
{
    if (!withdrawn_)
        receives_.withdraw();
    withdrawn_ = true;
    receives_.sweep();
    drain_all();
    bool settled = mpi_.settled(true);
    Tally in = received();
    if (in.messages == expected_.messages)
        receives_.withdraw_freed(); // nothing more will arrive for them
    bool wrong = in.messages > expected_.messages ||
                 (in.messages == expected_.messages && receives_.quiet() &&
                  receives_.bytes_known() && in.bytes != expected_.bytes);
    if (wrong) {
        Message m = message(MessageType::abandon);
        m.state = state();
        m.state.doing = Doing::corrupt;
        phase_ = Phase::saved;
        send(m);
    } else if (in.messages == expected_.messages && receives_.quiet() && settled) {
        phase_ = Phase::drained;
    }
}

void Rank::saved(bool ok)
{
    assert(phase_ == Phase::drained);
    phase_ = Phase::saved;
    Message m = message(ok ? MessageType::drained : MessageType::abandon);
    m.state = {.rank = self_, .doing = Doing::failed};
    send(m);
}

void Rank::decline()
{
    Message no = message(MessageType::abandon);
    no.state = {.rank = self_, .doing = Doing::failed};
    send(no);
}

void Rank::restarted()
{
    for (auto &[id, comm] : comms_)
        comm.forget_counts();
    retired_.clear();
    gone_.clear();
    receives_.forget_counts();
    next_epoch_.reset();
    epoch_ = 0;
    restarts_++;
    cuts_++;
    saved_version_ = versions_->clock;
    phase_ = Phase::resuming;
}

void Rank::drain_all()
{
    for (auto &[id, comm] : comms_)
        receives_.drain(comm);
}

void Rank::send_ready()
{
    Message m = message(MessageType::ready);
    m.acks = acks_;
    auto add = [&](WorldRank rank, const Tally &sent, const Tally &) {
        if (sent.messages)
            m.counts.push_back({rank, sent});
    };
    for (const auto &[id, comm] : comms_)
        comm.for_used(add);
    for (const auto &[rank, traffic] : retired_)
        add(rank, traffic.sent, traffic.received);
    std::sort(m.counts.begin(), m.counts.end(),
              [](const CountEntry &a, const CountEntry &b) { return a.rank < b.rank; });
    size_t kept = 0;
    for (size_t i = 0; i < m.counts.size(); i++) {
        if (kept && m.counts[kept - 1].rank == m.counts[i].rank)
            m.counts[kept - 1].tally += m.counts[i].tally;
        else
            m.counts[kept++] = m.counts[i];
    }
    m.counts.resize(kept);
    ready_for_ = acks_;
    send(m);
}

// The message names the last checkpoint that this rank has passed.
void Rank::ask()
{
    Message m = message(MessageType::want);
    m.epoch -= phase_ == Phase::asked;
    send(m);
}

uint64_t Rank::begin_version()
{
    start(*versions_);
    ask();
    return versions_->clock;
}

Rank::Version Rank::version(uint64_t number)
{
    if (saved_version_ >= number)
        return Version::saved;
    if (failed_version_ >= number)
        return Version::failed;
    // Another rank cannot reach the cut unless this one leaves its call. A receive from any source
    // asks every member, so such a need does not prove that this rank is to send the message.
    bool beyond = phase_ == Phase::asked && (behind_ > 0 || epochs_ > 0 || is_needed(true));
    return beyond ? Version::straddled : Version::open;
}

} // namespace cryo::bookmark
