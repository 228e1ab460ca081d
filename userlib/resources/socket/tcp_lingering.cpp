// SPDX-License-Identifier: Apache-2.0
#include "resources/socket/tcp_lingering.hpp"

#include "base/fd.hpp"

#include <fstream>
#include <iterator>
#include <netinet/tcp.h>
#include <poll.h>
#include <set>
#include <sstream>

namespace cryo::resources {

namespace {

using Ports = std::set<std::pair<uint16_t, uint16_t>>; // own port, peer's port

// Ports of ended connections that no process has any more.
Ports lingering_ports()
{
    Ports ports;
    for (const char *table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
        std::ifstream lines(table);
        std::string line;
        std::getline(lines, line);
        while (std::getline(lines, line)) {
            std::istringstream words(line);
            const std::vector<std::string> field{std::istream_iterator<std::string>(words), {}};
            constexpr size_t local = 1, peer = 2, state = 3, inode = 9;
            if (field.size() <= inode || field[inode] != "0")
                continue;
            // TIME_WAIT, and on the way there: FIN_WAIT1 and 2, LAST_ACK, CLOSING.
            const bool ends = field[state] == "06" || field[state] == "04" ||
                              field[state] == "05" || field[state] == "09" || field[state] == "0B";
            const auto port_of = [](const std::string &address) {
                return static_cast<uint16_t>(
                    strtoul(address.c_str() + address.find(':') + 1, nullptr, 16));
            };
            if (ends)
                ports.emplace(port_of(field[local]), port_of(field[peer]));
        }
    }
    return ports;
}

// An ended connection answers a SYN from its old peer with an ACK that says
// what it expects, and is removed by the RST that it gets for that, as after
// a crash of the peer. No process listens there, so nothing else happens.
void call(const TcpEnd &end)
{
    const sa_family_t family = end.local.get()->sa_family;
    const Fd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    const int yes = 1, no = 0;
    const linger at_once = {1, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    if (family == AF_INET6)
        setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    if (bind(fd.get(), end.local.get(), end.local.size()) != 0)
        return;
    if (connect(fd.get(), end.peer.get(), end.peer.size()) != 0 && errno == EINPROGRESS) {
        pollfd done = {fd.get(), POLLOUT, 0};
        poll(&done, 1, 100);
    }
}

} // namespace

bool port_lingers(uint16_t port)
{
    const Ports all = lingering_ports();
    return std::ranges::any_of(all, [port](const auto &one) { return one.first == port; });
}

void end_lingering(const std::vector<TcpEnd> &ends)
{
    // An ended connection that keeps an address may prevent a new connection from that address.
    for (int turn = 0; turn < 3 && !ends.empty(); turn++) {
        const Ports all = lingering_ports();
        bool found = false;
        for (const TcpEnd &end : ends) {
            if (all.count({end.peer.port(), end.local.port()}) == 0)
                continue;
            call(end);
            found = true;
        }
        if (!found)
            return;
    }
}

} // namespace cryo::resources
