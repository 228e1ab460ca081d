// SPDX-License-Identifier: Apache-2.0
#include "bookmark/collectives.hpp"

namespace cryo::bookmark {

void Collectives::enter(Comm &comm)
{
    inside_++; // before start(): a handler between the two must not treat this rank as stoppable
    inside_comm_ = comm.id();
    start(comm);
}

void Collectives::start(Comm &comm)
{
    uint64_t now = ++comm.clock;
    if (phase_ != Phase::asked)
        return;
    if (now == comm.target)
        behind_--;
    if (now > comm.target) {
        comm.target = now;
        reports_.raise(comm, 0);
    }
}

// Ranks told of it in between run on, as this one does, to the next one, the same at all members.
void Collectives::refused(Comm &comm)
{
    const uint64_t before = comm.clock--;
    if (phase_ == Phase::asked && before == comm.target)
        behind_++;
}

void Collectives::run_to(std::span<const ClockEntry> targets)
{
    for (const ClockEntry &e : targets) {
        Comm *comm = communicators_.find(e.comm);
        if (comm == nullptr || e.high <= comm->target)
            continue;
        if (comm->clock >= comm->target && comm->clock < e.high)
            behind_++;
        comm->target = e.high;
    }
}

} // namespace cryo::bookmark
