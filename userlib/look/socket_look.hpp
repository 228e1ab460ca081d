// SPDX-License-Identifier: Apache-2.0
//
// Reads the properties of a socket, from the socket itself and, for UNIX sockets, from sock_diag.
//
//     Result<SocketLook> look = look_at_socket(fd, inode);
//     fmt::print("{}\n", describe_socket(*look)); // TCP, 127.0.0.1:4711 to 127.0.0.1:80
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace cryo::capture {

// The sources from which a socket receives in a multicast group.
struct SourceFilter {
    bool only_sources = false; // these; else all but these
    std::string sources;       // addresses of 4 bytes or 16, one after the other
};

struct Membership {
    std::string interface;
    std::string group; // an address of 4 bytes or 16
    SourceFilter filter;
    // Of a packet socket: PACKET_MR_…, and 1; its group is an address of the interface's kind.
    uint32_t packets = 0;
};

struct SocketLook {
    int domain = 0, kind = 0, protocol = 0;
    std::string local, peer; // in the format of bind(2)
    bool bound = false, connected = false, listening = false;
    bool local_is_unnamed = true, peer_is_unnamed = true;
    bool ended = false;  // TCP: it had a connection, which is over
    bool unread = false; // it has unread data
    bool failed = false; // it has a pending error
    uint32_t backlog = 0;
    uint32_t waiting = 0;  // connections not yet accepted
    uint32_t shutdown = 0; // 1: reading, 2: writing
    // UNIX only, if the kernel reports it; TCP peers are found by their addresses.
    bool diagnosed = false;
    uint64_t peer_inode = 0;       // 0: none, gone, or not accepted yet
    uint64_t file_inode = 0;       // of the socket file: the lower 32 bits
    uint64_t file_device = 0;      // of its file system; from bit 20 on the major number
    std::string file_name;         // of a socket file that was renamed: Sockets finds it
    std::vector<uint64_t> options; // level, name, value
    // The filter, classic BPF: of each instruction the code, from bit 16 on jt, 24: jf, 32: k.
    std::vector<uint64_t> filter;
    bool filter_locked = false;          // SO_LOCK_FILTER
    std::string type_filter;             // raw ICMPv6 only: ICMP6_FILTER, if it leaves types out
    std::vector<uint32_t> groups;        // netlink only: those that it has joined
    std::string congestion;              // TCP only: TCP_CONGESTION, if it is not the usual one
    std::string interface;               // packet sockets only: the one that it is bound to
    std::vector<Membership> memberships; // GroupTables::look_at()
    std::string problem;                 // what about it cannot be restored; empty: nothing
    bool passing = false;                // the problem is one of asking, and may pass
};

Result<SocketLook> look_at_socket(int fd, uint64_t inode);
// The inodes of sockets that have connected to a listening UNIX socket and were not accepted yet,
// in order; 0: the caller has closed its end.
std::vector<uint64_t> waiting_callers(uint64_t listener);
std::string describe_socket(const SocketLook &look);
bool is_udp(const SocketLook &look);
// Whether the address lacks a port, or a name.
bool is_unnamed(const std::string &address);
// "127.0.0.1:80", "[::1]:80", a path, "@abstract", "port 4711" of netlink.
std::string printable_address(const std::string &address);
// The file name in a UNIX address; empty if there is none.
std::string unix_path(const std::string &address);

// Descriptors from a message (SCM_RIGHTS), duplicated: they refer to the same open files.
struct PassedDescriptors {
    uint64_t position = 0; // in the queue, of the bytes they came with
    uint64_t size = 0;
    uint32_t packet = 0; // the packet's index, if the socket keeps packets apart
    std::vector<Fd> descriptors;
};

struct SocketQueue {
    std::string bytes;
    std::vector<uint32_t> packets;    // their sizes, if the socket keeps them apart
    std::vector<std::string> senders; // of each packet: in the format of bind(2), or empty
    std::vector<PassedDescriptors> passed;
    bool way_told = false; // packets carry data on destination or hops
    // Behind the bytes the program will read ECONNRESET: the other end was closed with unread data.
    bool reset = false;
};

// Peeks the queue of a UNIX or UDP socket; ENOTSUP: it holds something that cannot be saved.
Result<SocketQueue> peek_queue(int fd, const SocketLook &look);

} // namespace cryo::capture
