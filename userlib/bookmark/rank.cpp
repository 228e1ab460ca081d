// SPDX-License-Identifier: Apache-2.0
#include "bookmark/rank.hpp"

#include <cassert>

namespace cryo::bookmark {

namespace {

constexpr CommId kVersions = 0x56455253494f4e53;

} // namespace

Rank::Rank(const Config &config, Link &link, Mpi &mpi)
    : reports_(config.self, link, config.memory), mpi_(mpi),
      communicators_(config.threads, config.memory), receives_(mpi, config.memory),
      collectives_(phase_, communicators_, reports_),
      needs_(communicators_, reports_, config.memory),
      versions_(communicators_.add(kVersions, 1, {}, config.ranks), phase_, collectives_, needs_,
                reports_)
{}

Comm &Rank::made(CommId id, uint32_t peer_count, std::span<const WorldRank> peers, uint32_t members)
{
    Comm &comm = communicators_.add(id, peer_count, peers, members);
    if (phase_ == Phase::asked)
        reports_.raise(comm, 1); // other members may have entered collectives on it already
    return comm;
}

void Rank::freed(Comm &comm)
{
    collectives_.start(comm);
    dropped(comm);
}

void Rank::dropped(Comm &comm)
{
    communicators_.drop(comm);
    communicators_.forget_freed(receives_);
}

bool Rank::must_hold() const
{
    switch (phase_) {
    case Phase::idle:
        return false;
    case Phase::asked:
        return collectives_.let_stop() && !needs_.is_needed();
    case Phase::cut:
    case Phase::drained:
    case Phase::saved:
    case Phase::resuming:
        return true;
    }
    return true;
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
    Need need{.from = reports_.self()};
    if (source == kAnySource) {
        need.comm = comm.id();
        need.have = communicators_.received().messages;
    } else {
        need.to = comm.world(source);
        need.have = communicators_.received_from(need.to).messages;
        if (need.to == need.from)
            return;
    }
    needs_.announce(need);
}

void Rank::handle(Bytes bytes)
{
    Message m = reports_.message(MessageType::state);
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
    if (m.epoch != epoch() || phase_ == Phase::idle || phase_ == Phase::resuming)
        return;
    switch (m.type) {
    case MessageType::targets:
        acks_++;
        collectives_.run_to(m.clocks);
        break;
    case MessageType::need:
        acks_++;
        needs_.add(m.need);
        break;
    case MessageType::unneed:
        needs_.remove(m.need);
        break;
    case MessageType::expected:
        if (!must_hold()) { // the `ready` was wrong: save nothing
            reports_.abandon(Doing::corrupt);
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
            Message answer = reports_.message(MessageType::state);
            answer.state = state();
            reports_.send(answer);
        }
        break;
    default:
        break;
    }
}

void Rank::begin(uint32_t epoch)
{
    reports_.begin(epoch);
    phase_ = Phase::asked;
    pending_ = true;
    collectives_.forget_targets();
    acks_ = 0;
    ready_for_.reset();
    needs_.clear();
    expected_ = {};
    communicators_.forget_freed(receives_);
    Message m = reports_.message(MessageType::clocks);
    communicators_.begin_clocks(m.clocks);
    reports_.send(m);
}

void Rank::end(bool saved)
{
    versions_.note_end(saved);
    needs_.clear();
    collectives_.forget_targets();
    if (phase_ != Phase::asked)
        communicators_.forget_gone();
    if (phase_ == Phase::asked) {
        phase_ = Phase::idle;
        pending_ = false;
    } else {
        phase_ = Phase::resuming; // serve() does the rest, because it may call the library
    }
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
    Tally in = communicators_.received();
    if (in.messages == expected_.messages)
        receives_.withdraw_freed(); // nothing more will arrive for them
    bool wrong = in.messages > expected_.messages ||
                 (in.messages == expected_.messages && receives_.quiet() &&
                  receives_.bytes_known() && in.bytes != expected_.bytes);
    if (wrong) {
        Message m = reports_.message(MessageType::abandon);
        m.state = state();
        m.state.doing = Doing::corrupt;
        phase_ = Phase::saved;
        reports_.send(m);
    } else if (in.messages == expected_.messages && receives_.quiet() && settled) {
        phase_ = Phase::drained;
    }
}

void Rank::saved(bool ok)
{
    assert(phase_ == Phase::drained);
    phase_ = Phase::saved;
    if (ok)
        reports_.send(reports_.message(MessageType::drained));
    else
        reports_.abandon(Doing::failed);
}

void Rank::decline()
{
    reports_.abandon(Doing::failed);
}

void Rank::restarted()
{
    communicators_.forget_counts();
    receives_.forget_counts();
    next_epoch_.reset();
    reports_.begin(0);
    versions_.note_restart();
    phase_ = Phase::resuming;
}

void Rank::drain_all()
{
    communicators_.for_each([&](Comm &comm) { receives_.drain(comm); });
}

void Rank::send_ready()
{
    Message m = reports_.message(MessageType::ready);
    m.acks = acks_;
    communicators_.add_sent(m.counts);
    ready_for_ = acks_;
    reports_.send(m);
}

StateEntry Rank::state() const
{
    StateEntry s{.rank = reports_.self(), .doing = Doing::running};
    if (phase_ == Phase::cut) {
        s.have = communicators_.received().messages;
        s.want = expected_.messages;
        s.doing = s.have == s.want ? Doing::finishing : Doing::draining;
        return s;
    }
    if (phase_ == Phase::drained || phase_ == Phase::saved) {
        s.doing = Doing::saving;
        return s;
    }
    communicators_.for_each([&](const Comm &comm) {
        if (comm.clock < comm.target) {
            s.comm = comm.id();
            s.have = comm.clock;
            s.want = comm.target;
        }
    });
    if (collectives_.is_inside()) {
        s.doing = Doing::collective;
        s.comm = collectives_.inside_comm();
    } else if (const Need *need = needs_.own(); need != nullptr) {
        s.doing = Doing::receiving;
        s.on = need->to;
        s.comm = need->comm;
    } else if (collectives_.has_epoch()) {
        s.doing = Doing::epoch;
    } else if (!collectives_.is_behind() && needs_.is_needed()) {
        s.doing = Doing::needed;
        s.on = needs_.first_waiting();
    }
    return s;
}

} // namespace cryo::bookmark
