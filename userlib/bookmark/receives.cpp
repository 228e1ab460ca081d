// SPDX-License-Identifier: Apache-2.0
#include "bookmark/receives.hpp"

#include <algorithm>

namespace cryo::bookmark {

Receives::Receives(Mpi &mpi, std::pmr::memory_resource *memory)
    : mpi_(mpi), held_(memory), spare_(memory), arriving_(memory)
{}

Receives::Messages::iterator Receives::find(Comm &comm, int source, int tag)
{
    return std::find_if(comm.drained.begin(), comm.drained.end(), [&](const Drained &d) {
        return (source == kAnySource || source == d.source) && (tag == kAnyTag || tag == d.tag);
    });
}

void Receives::post(Receive &receive)
{
    receive.arrival = {};
    auto found = find(*receive.comm, receive.source, receive.tag);
    if (found != receive.comm->drained.end()) {
        held_.splice(held_.end(), receive.comm->drained, found);
        bind(receive, *found);
        return;
    }
    mpi_.post(receive);
    posted(receive);
}

bool Receives::has(Comm &comm, int source, int tag)
{
    return find(comm, source, tag) != comm.drained.end();
}

void Receives::posted(Receive &receive)
{
    receive.arrival = {};
    receive.state = Receive::State::posted;
    link(receive);
}

bool Receives::test(Receive &receive)
{
    Arrival arrival;
    if (receive.state == Receive::State::posted && mpi_.test(receive, arrival))
        finish_native(receive, arrival);
    else if (receive.state == Receive::State::bound && arrived(*receive.comm, *receive.drained))
        finish_bound(receive);
    return receive.state == Receive::State::done || receive.state == Receive::State::cancelled;
}

bool Receives::cancel(Receive &receive)
{
    if (receive.state == Receive::State::withdrawn && receive.comm->freed) {
        unlink(receive); // not posted again, so the library does not know it
        receive.state = Receive::State::cancelled;
        return true;
    }
    if (receive.state != Receive::State::posted)
        return false;
    Arrival arrival;
    switch (mpi_.withdraw(receive, arrival)) {
    case Withdrawal::withdrawn:
        unlink(receive);
        receive.state = Receive::State::cancelled;
        return true;
    case Withdrawal::done:
        finish_native(receive, arrival);
        return false;
    case Withdrawal::arriving:
        break;
    }
    return false;
}

bool Receives::probe(Comm &comm, int source, int tag, Arrival &arrival)
{
    auto found = find(comm, source, tag);
    if (found == comm.drained.end())
        return mpi_.probe(comm, source, tag, arrival);
    arrival = {.source = found->source, .tag = found->tag, .bytes = found->data.size()};
    return true;
}

bool Receives::mprobe(Comm &comm, int source, int tag, Matched &matched)
{
    matched.comm = &comm;
    matched.drained = nullptr;
    auto found = find(comm, source, tag);
    if (found != comm.drained.end()) {
        held_.splice(held_.end(), comm.drained, found);
        matched.drained = &*found;
        matched.arrival = {.source = found->source, .tag = found->tag, .bytes = found->data.size()};
        return true;
    }
    if (!mpi_.mprobe(comm, source, tag, matched))
        return false;
    matched.before = nullptr;
    matched.after = matched_;
    if (matched_)
        matched_->before = &matched;
    matched_ = &matched;
    return true;
}

void Receives::receive_matched(Matched &matched, Receive &receive)
{
    receive.comm = matched.comm;
    receive.arrival = {};
    if (matched.drained) {
        bind(receive, *matched.drained);
        return;
    }
    unlink(matched);
    mpi_.receive_matched(matched, receive);
    receive.state = Receive::State::posted;
    link(receive);
}

void Receives::drain(Comm &comm)
{
    for (;;) {
        if (spare_.empty())
            spare_.emplace_back(spare_.get_allocator().resource());
        Drained &message = spare_.front();
        if (!mpi_.take(comm, message))
            return;
        comm.drained.splice(comm.drained.end(), spare_);
        arriving_.push_back({&comm, &message});
        arrived(comm, message);
    }
}

void Receives::sweep()
{
    for (size_t i = arriving_.size(); i-- > 0;)
        arrived(*arriving_[i].comm, *arriving_[i].message);
    for (Receive *r = first_, *next; r; r = next) {
        next = r->after;
        test(*r);
    }
}

// Receives on a freed communicator stay posted: their messages have been sent, so they complete by
// themselves, and they could not be posted again.
void Receives::withdraw()
{
    withdraw(false);
    absorb();
}

void Receives::withdraw_freed()
{
    withdraw(true);
}

void Receives::withdraw(bool freed)
{
    // Youngest first: a message that arrives meanwhile and matches two of them finds the older one
    // still posted, as it would without a checkpoint.
    for (Receive *r = last_, *next; r; r = next) {
        next = r->before;
        if (r->state != Receive::State::posted || r->comm->freed != freed)
            continue;
        Arrival arrival;
        switch (mpi_.withdraw(*r, arrival)) {
        case Withdrawal::withdrawn:
            r->state = Receive::State::withdrawn;
            break;
        case Withdrawal::done:
            finish_native(*r, arrival);
            break;
        case Withdrawal::arriving:
            break;
        }
    }
}

void Receives::absorb()
{
    while (matched_) {
        Matched &m = *matched_;
        unlink(m);
        held_.emplace_back(held_.get_allocator().resource());
        m.drained = &held_.back();
        mpi_.take_matched(m, *m.drained);
        arriving_.push_back({m.comm, m.drained});
        arrived(*m.comm, *m.drained);
    }
}

void Receives::repost()
{
    for (Receive *r = first_, *next; r; r = next) {
        next = r->after;
        if (r->state != Receive::State::withdrawn || r->comm->freed)
            continue;
        auto found = find(*r->comm, r->source, r->tag);
        if (found == r->comm->drained.end()) {
            mpi_.post(*r);
            r->state = Receive::State::posted;
        } else {
            unlink(*r);
            held_.splice(held_.end(), r->comm->drained, found);
            bind(*r, *found);
        }
    }
}

bool Receives::is_arriving(const Comm &comm) const
{
    return std::any_of(arriving_.begin(), arriving_.end(),
                       [&](const Arriving &a) { return a.comm == &comm; });
}

bool Receives::quiet() const
{
    for (const Receive *r = first_; r; r = r->after)
        if (r->state == Receive::State::posted)
            return false;
    return arriving_.empty() && !matched_;
}

void Receives::bind(Receive &receive, Drained &message)
{
    receive.drained = &message;
    receive.state = Receive::State::bound;
    if (message.complete)
        finish_bound(receive);
}

void Receives::finish_bound(Receive &receive)
{
    const Drained &message = *receive.drained;
    mpi_.deliver(receive, message);
    uint64_t bytes = message.data.size();
    receive.arrival = {.source = message.source,
                       .tag = message.tag,
                       .bytes = std::min(bytes, receive.capacity),
                       .truncated = bytes > receive.capacity};
    receive.state = Receive::State::done;
    receive.drained = nullptr;
    held_.remove_if([&](const Drained &d) { return &d == &message; });
}

void Receives::finish_native(Receive &receive, const Arrival &arrival)
{
    unlink(receive);
    if (arrival.cancelled) {
        receive.state = Receive::State::cancelled;
        return;
    }
    receive.arrival = arrival;
    receive.state = Receive::State::done;
    receive.comm->received(arrival.source, arrival.bytes);
    if (arrival.truncated)
        bytes_known_ = false;
}

bool Receives::arrived(Comm &comm, Drained &message)
{
    if (message.complete)
        return true;
    if (!mpi_.taken(message))
        return false;
    message.complete = true;
    comm.received(message.source, message.data.size());
    std::erase_if(arriving_, [&](const Arriving &a) { return a.message == &message; });
    return true;
}

void Receives::link(Receive &receive)
{
    receive.before = last_;
    receive.after = nullptr;
    (last_ ? last_->after : first_) = &receive;
    last_ = &receive;
}

void Receives::unlink(Receive &receive)
{
    (receive.before ? receive.before->after : first_) = receive.after;
    (receive.after ? receive.after->before : last_) = receive.before;
    receive.before = receive.after = nullptr;
}

void Receives::unlink(Matched &matched)
{
    (matched.before ? matched.before->after : matched_) = matched.after;
    if (matched.after)
        matched.after->before = matched.before;
    matched.before = matched.after = nullptr;
}

} // namespace cryo::bookmark
