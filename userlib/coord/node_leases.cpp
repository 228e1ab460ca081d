// SPDX-License-Identifier: Apache-2.0
#include "coord/node_leases.hpp"

#include "base/clock.hpp"

namespace cryo::coord {

void NodeLeases::begin(uint32_t member, Message &joined)
{
    if (!wanted_)
        return;
    joined.fields["lease_ns"] = times_.lease;
    grants_.grant(member, clock_ns(CLOCK_BOOTTIME));
    if (!looks_)
        look();
}

void NodeLeases::renew(uint32_t member, Channel &channel, const Message &request)
{
    if (!grants_.has(member))
        return;
    grants_.grant(member, clock_ns(CLOCK_BOOTTIME));
    channel.send(Message(Type::renewed, {{"number", request.fields.at("number")}}));
}

int64_t NodeLeases::end(uint32_t member)
{
    const int64_t over = grants_.over(member);
    grants_.forget(member);
    return over;
}

void NodeLeases::look()
{
    for (const uint32_t member : grants_.unrenewed(clock_ns(CLOCK_BOOTTIME)))
        on_end(member);
    looks_ = !grants_.empty();
    if (looks_)
        loop_.after(times_.renewal / 1'000'000, [this] { look(); });
}

} // namespace cryo::coord
