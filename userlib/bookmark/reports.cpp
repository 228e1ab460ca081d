// SPDX-License-Identifier: Apache-2.0
#include "bookmark/reports.hpp"

namespace cryo::bookmark {

void Reports::raise(const Comm &comm, uint32_t heard)
{
    Message m = message(MessageType::raise);
    m.clocks.push_back({.comm = comm.id(),
                        .members = comm.members(),
                        .heard = heard,
                        .low = comm.clock,
                        .high = comm.clock});
    send(m);
}

void Reports::need(MessageType type, const Need &need)
{
    Message m = message(type);
    m.need = need;
    send(m);
}

void Reports::abandon(Doing doing)
{
    Message m = message(MessageType::abandon);
    m.state = {.rank = self_, .doing = doing};
    send(m);
}

} // namespace cryo::bookmark
