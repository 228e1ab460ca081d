// SPDX-License-Identifier: Apache-2.0
#include "rank_sim.hpp"

#include <fmt/format.h>
#include <utility>

namespace cryo::bookmark::sim {

namespace {

uint64_t mixed(uint64_t a, uint64_t b)
{
    return derive_comm_id(a, b, 1);
}

} // namespace

SimRank::SimRank(Shared &shared, WorldRank self, Link &link)
    : shared_(shared), self_(self), ops_(shared.program.ranks[self]), mpi_(shared, self),
      rank_({.self = self,
             .ranks = uint32_t(shared.program.ranks.size()),
             .threads = self % 2 ? Threads::many : Threads::one},
            link, mpi_),
      comms_(shared.program.comms.size())
{
    auto n = uint32_t(shared.program.ranks.size());
    comms_[0] = &rank_.made(1, n, {}, n);
}

void SimRank::message(const std::vector<uint8_t> &bytes)
{
    bool deaf =
        at_ < ops_.size() && ops_[at_].kind == Do::compute && ops_[at_].deaf && !rank_.must_hold();
    progress_++;
    if (deaf && computing_ > 0)
        unheard_.push_back(bytes);
    else
        rank_.handle(bytes);
}

void SimRank::stop_or_save()
{
    Rank::Phase before = rank_.phase();
    rank_.serve();
    if (rank_.phase() != before)
        progress_++;
    if (rank_.phase() != Rank::Phase::drained) {
        saving_ = -1;
    } else if (saving_ < 0) {
        if (!shared_.abandoned && shared_.net.busy_with(self_))
            shared_.fault(fmt::format("rank {} would be saved with operations under way", self_));
        saving_ = int(shared_.random() % 5);
        progress_++;
    } else if (saving_-- == 0) {
        rank_.saved(!save_fails);
        save_fails = false;
        progress_++;
    } else {
        progress_++;
    }
}

void SimRank::step()
{
    if (dead)
        return;
    if (rank_.pending() && rank_.must_hold()) {
        stop_or_save();
        return;
    }
    if (finished())
        return;
    if (execute(ops_[at_])) {
        if (rank_.pending())
            rank_.waits_no_more();
        at_++;
        phase_ = 0;
        progress_++;
    }
}

int SimRank::source(const Op &op)
{
    const CommPlan &plan = shared_.program.comms[size_t(op.comm)];
    return op.any_source ? kAnySource : index_of(plan.peers(self_), op.peer);
}

void SimRank::begin_send(const Op &op, Request &request)
{
    const CommPlan &plan = shared_.program.comms[size_t(op.comm)];
    int dest = index_of(plan.peers(self_), op.peer);
    bool late = shared_.sabotage == Sabotage::send_counted_late && op.rendezvous;
    if (!late && !shared_.strikes(Sabotage::send_not_counted))
        comm(op).sent(dest, op.bytes);
    request.send = shared_.net.send({.id = uint64_t(self_ + 1) << 32 | ++sends_,
                                     .from = self_,
                                     .to = op.peer,
                                     .comm = comm(op).id(),
                                     .source = index_of(plan.peers(op.peer), self_),
                                     .tag = op.tag,
                                     .bytes = op.bytes,
                                     .rendezvous = op.rendezvous});
    progress_++;
}

void SimRank::begin_receive(const Op &op, Request &request)
{
    request.comm = &comm(op);
    request.source = source(op);
    request.tag = op.any_tag ? kAnyTag : op.tag;
    request.capacity = op.capacity;
    request.number = shared_.next_receive++;
    shared_.net.reference.post(request.number, self_, request.comm->id(), request.source,
                               request.tag);
    if (shared_.sabotage == Sabotage::drained_ignored) {
        std::pmr::list<Drained> hidden;
        hidden.swap(request.comm->drained);
        rank_.receives().post(request);
        hidden.swap(request.comm->drained);
    } else {
        rank_.receives().post(request);
    }
    progress_++;
}

// The body of a wrapper's wait loop: true when the wait is over.
bool SimRank::wait_for(const Op &op, bool done)
{
    if (!done && rank_.pending())
        rank_.waits_for(comm(op), source(op));
    return done;
}

bool SimRank::end_receive(const Op &op, Request &request)
{
    if (!rank_.receives().test(request)) {
        if (rank_.pending())
            rank_.waits_for(*request.comm, request.source);
        return false;
    }
    if (shared_.strikes(Sabotage::receive_counted_twice))
        request.comm->received(request.arrival.source, request.arrival.bytes);
    got(op, request);
    return true;
}

void SimRank::got(const Op &op, const Request &request)
{
    uint64_t expected = shared_.net.reference.got(request.number);
    if (request.payload != expected)
        shared_.fault(fmt::format("rank {}: operation {} received message {:x}, and without a "
                                  "checkpoint {:x}",
                                  self_, at_, request.payload, expected));
    if (op.unordered)
        sum_ += mixed(request.payload, 7);
    else
        digest_ = mixed(digest_, request.payload + request.arrival.truncated * 3 +
                                     request.arrival.bytes * 5);
}

bool SimRank::probe_and_receive(const Op &op)
{
    if (phase_ == 0) {
        Arrival seen;
        if (!wait_for(op, rank_.receives().probe(comm(op), source(op), op.tag, seen)))
            return false;
        if (rank_.pending())
            rank_.waits_no_more();
        here_ = {};
        Op exact = op;
        exact.any_source = false;
        exact.peer = comm(op).world(seen.source);
        exact.tag = seen.tag;
        begin_receive(exact, here_);
        phase_ = 1;
    }
    return end_receive(op, here_);
}

bool SimRank::matched_probe(const Op &op)
{
    Request &r = slot(op);
    if (!wait_for(op, rank_.receives().mprobe(comm(op), source(op), op.tag, r.matched)))
        return false;
    r.number = shared_.next_receive++;
    r.payload = shared_.net.reference.take(self_, comm(op).id(), source(op), op.tag);
    return true;
}

bool SimRank::collective(const Op &op)
{
    Comm *c = comms_[size_t(op.comm)];
    if (phase_ == 0) {
        uint64_t number = ++collectives_[op.comm];
        rank_.collectives().enter(*c);
        if (shared_.strikes(Sabotage::collective_not_ticked))
            c->clock--;
        here_ = {};
        here_.collective = number;
        shared_.net.enter(self_, c->id(), number,
                          op.kind == Do::make_comms ? Collective::barrier : op.how, op.peer,
                          c->members());
        phase_ = 1;
        progress_++;
    }
    if (!shared_.net.complete(self_, c->id(), here_.collective))
        return false;
    if (op.kind == Do::make_comms)
        make_comms(op, here_.collective);
    rank_.collectives().leave();
    return true;
}

bool SimRank::ckpt()
{
    if (!shared_.obeys)
        return true;
    if (phase_ == 0) {
        version_ = rank_.versions().begin();
        phase_ = 1;
        progress_++;
    }
    switch (rank_.versions().state(version_)) {
    case Version::open:
        return false;
    case Version::saved:
        shared_.report.versions++;
        return true;
    case Version::straddled:
        shared_.report.straddled++;
        return true;
    case Version::failed:
        return true;
    }
    return true;
}

void SimRank::make_comms(const Op &op, uint64_t ordinal)
{
    CommId parent = comm(op).id();
    for (int index : op.made) {
        const CommPlan &plan = shared_.program.comms[size_t(index)];
        if (!plan.has(self_))
            continue;
        const auto &peers = plan.peers(self_);
        CommId id = derive_comm_id(parent, ordinal, plan.group.front());
        comms_[size_t(index)] = &rank_.made(id, uint32_t(peers.size()), peers, plan.members());
    }
}

bool SimRank::execute(const Op &op)
{
    switch (op.kind) {
    case Do::send:
        if (phase_ == 0) {
            here_ = {};
            begin_send(op, here_);
            phase_ = 1;
        }
        if (!shared_.net.sent(here_.send))
            return false;
        if (shared_.sabotage == Sabotage::send_counted_late && op.rendezvous)
            comm(op).sent(index_of(shared_.program.comms[size_t(op.comm)].peers(self_), op.peer),
                          op.bytes);
        return true;
    case Do::isend:
        begin_send(op, slot(op));
        if (shared_.sabotage == Sabotage::send_counted_late)
            slot(op).comm = &comm(op);
        return true;
    case Do::wait_send:
        if (!shared_.net.sent(slot(op).send))
            return false;
        if (slot(op).comm)
            slot(op).comm->sent(0, 8);
        return true;
    case Do::recv:
        if (phase_ == 0) {
            here_ = {};
            begin_receive(op, here_);
            phase_ = 1;
        }
        return end_receive(op, here_);
    case Do::irecv:
        begin_receive(op, slot(op));
        return true;
    case Do::wait_recv:
        if (op.polls && shared_.random() % 2)
            return false; // the program works between two tests
        return end_receive(op, slot(op));
    case Do::probe_recv:
        return probe_and_receive(op);
    case Do::mprobe:
        return matched_probe(op);
    case Do::mrecv: {
        Request &r = slot(op);
        if (phase_ == 0) {
            uint64_t expected = r.payload;
            r.capacity = 1 << 20;
            r.payload = 0;
            rank_.receives().receive_matched(r.matched, r);
            phase_ = 1;
            here_ = {};
            here_.payload = expected;
        }
        if (!rank_.receives().test(r))
            return false;
        if (r.payload != here_.payload)
            shared_.fault(fmt::format("rank {}: operation {}: the matched message is {:x}, and "
                                      "without a checkpoint {:x}",
                                      self_, at_, r.payload, here_.payload));
        digest_ = mixed(digest_, r.payload);
        return true;
    }
    case Do::cancel:
    case Do::cancel_recv: {
        Request &r = slot(op);
        if (phase_ == 0) {
            bool cancelled = rank_.receives().cancel(r);
            bool expected = shared_.net.reference.cancel(r.number, self_, r.comm->id());
            if (cancelled != expected || (op.kind == Do::cancel && !cancelled))
                shared_.fault(fmt::format("rank {}: operation {}: a receive was{} cancelled", self_,
                                          at_, cancelled ? "" : " not"));
            if (op.kind == Do::cancel)
                return true;
            if (cancelled)
                begin_receive(op, r);
            phase_ = 1;
        }
        return end_receive(op, r);
    }
    case Do::collective:
    case Do::make_comms:
        return collective(op);
    case Do::refused:
        if (phase_ == 0) {
            rank_.collectives().enter(comm(op));
            phase_ = 1;
            return false;
        }
        rank_.collectives().refused(comm(op));
        rank_.collectives().leave();
        return true;
    case Do::free_comm: // local: does not wait for the other members
        rank_.freed(comm(op));
        comms_[size_t(op.comm)] = nullptr;
        return true;
    case Do::icollective: {
        Comm &c = comm(op);
        uint64_t number = ++collectives_[op.comm];
        rank_.collectives().start(c);
        if (shared_.strikes(Sabotage::nonblocking_collective_not_ticked))
            c.clock--;
        slot(op).collective = number;
        shared_.net.enter(self_, c.id(), number, op.how, op.peer, c.members());
        return true;
    }
    case Do::wait_collective:
        return shared_.net.complete(self_, comm(op).id(), slot(op).collective);
    case Do::compute:
        if (computing_ == 0)
            computing_ = op.steps + 1;
        progress_++;
        if (--computing_ > 0)
            return false;
        for (const auto &bytes : std::exchange(unheard_, {}))
            rank_.handle(bytes);
        return true;
    case Do::ckpt:
        return ckpt();
    case Do::open_epoch:
        rank_.collectives().open_epoch();
        epochs_++;
        return true;
    case Do::close_epoch:
        rank_.collectives().close_epoch();
        epochs_--;
        return true;
    }
    return true;
}

std::string SimRank::position() const
{
    if (finished())
        return "has finished";
    const Op &op = ops_[at_];
    return fmt::format(
        "is at operation {} of {}, kind {} phase {}, communicator {}, peer {}, tag {}", at_,
        ops_.size(), int(op.kind), phase_, op.comm, op.peer, op.tag);
}

uint64_t SimRank::waiting_messages() const
{
    uint64_t count = 0;
    for (const Comm *c : comms_)
        if (c)
            count += c->drained.size();
    return count;
}

} // namespace cryo::bookmark::sim
