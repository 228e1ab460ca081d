// SPDX-License-Identifier: Apache-2.0
//
// Packets of TCP connections that no process has for now: the kernel's packet filter (nftables)
// drops them in both directions, so that no peer is told that its connection is over. What a peer
// has sent meanwhile it sends again. Only what has the table's own mark passes (peer_end.hpp).
//
//     Result<void> held = hold_packets(number, {{local, peer}});
//     if (are_held(number, {local, peer})) ... // nobody has used the connection since
//     Result<void> passed = pass_packets(number);
//
// The number is in the name of the filter's table, `cryo_held_NUMBER`; whoever removes the table
// gives the connections up. It is gone after a reboot, and with its network namespace.
#pragma once

#include "base/result.hpp"
#include "resources/socket/tcp_lingering.hpp"

#include <cstdint>
#include <vector>

namespace cryo::resources {

// ENOTSUP: libnftables is missing. What is loaded then serves a forked process, too, which could
// not load it safely itself.
Result<void> can_hold_packets();
// On failure nothing is held. The caller needs CAP_NET_ADMIN in its network namespace.
Result<void> hold_packets(uint64_t number, const std::vector<TcpEnd> &ends);
// Whether they have been held by this number since hold_packets(). ENOTSUP: that cannot be told.
Result<void> are_held(uint64_t number, const TcpEnd &end);
// ESTALE: they are not held any more; ENOTSUP: libnftables is missing.
Result<void> pass_packets(uint64_t number);

// The mark (SO_MARK) of packets that pass, as random as the number. Never 0, which is no mark.
uint32_t mark_of(uint64_t number);

// The table's family and name, as nft has them.
std::string table_of(uint64_t number);
// What the packet filter is told to hold them; for tests.
std::string rules_to_hold(uint64_t number, const std::vector<TcpEnd> &ends);

} // namespace cryo::resources
