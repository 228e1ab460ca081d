// SPDX-License-Identifier: Apache-2.0
//
// Tells a socket that its peer has ended its direction of the connection, as the peer itself has
// told the socket in whose place this one is. Nothing but a packet of the peer's does so; the peer
// sends none any more, as it knows that the first one has arrived. So a packet in its name goes
// from this machine to itself.
//
//     Result<void> may = try_end(fd, {local, peer}, {seq, acknowledged, window}, mark);
//     Result<void> told = tell_end(made, {local, peer}, {seq, acknowledged, window}, mark);
#pragma once

#include "base/result.hpp"
#include "resources/socket/tcp_lingering.hpp"

#include <cstdint>

namespace cryo::resources {

struct EndSegment {
    uint32_t seq = 0;          // of the end
    uint32_t acknowledged = 0; // the next byte that the peer expects
    uint16_t window = 0;       // as it stands in the packet
};

// Returns when the socket knows. The packet has the mark, by which a packet filter can tell it.
// EPERM: it takes CAP_NET_RAW; EADDRNOTAVAIL: it would leave this machine; ENOTSUP: it is stopped.
Result<void> tell_end(int fd, const TcpEnd &end, const EndSegment &segment, uint32_t mark);
// Whether that would be so, of a socket that has been told by its peer: it takes the packet for one
// that is sent again, as for want of an answer.
Result<void> try_end(int fd, const TcpEnd &end, const EndSegment &segment, uint32_t mark);

} // namespace cryo::resources
