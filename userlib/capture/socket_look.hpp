// SPDX-License-Identifier: Apache-2.0
//
// What a socket is, asked of the socket itself and, for UNIX ones, of the kernel's diagnostics.
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

struct SocketLook {
    int domain = 0, kind = 0, protocol = 0;
    std::string local, peer; // as bind(2) takes them
    bool bound = false, connected = false, listening = false;
    bool local_is_unnamed = true, peer_is_unnamed = true;
    bool ended = false;      // TCP: was a connection, and is none any more
    bool unread = false;     // something waits in it
    bool failed = false;     // an error waits in it
    bool has_filter = false; // SO_ATTACH_FILTER
    uint32_t backlog = 0;
    uint32_t waiting = 0;  // connections that were not accepted yet
    uint32_t shutdown = 0; // 1: reading, 2: writing
    // UNIX only, where the kernel tells; the peer of a TCP connection is found by its addresses.
    bool diagnosed = false;
    uint64_t peer_inode = 0;       // 0: none, or gone, or not accepted yet
    uint64_t file_inode = 0;       // of the socket file
    std::vector<uint64_t> options; // level, name, value
};

Result<SocketLook> look_at_socket(int fd, uint64_t inode);
// Who has connected to a listening UNIX socket and was not accepted yet, in this order: inodes; 0:
// it has closed its end.
std::vector<uint64_t> waiting_callers(uint64_t listener);
std::string describe_socket(const SocketLook &look);
bool is_udp(const SocketLook &look);
// "127.0.0.1:80", "[::1]:80", a path, "@abstract".
std::string printable_address(const std::string &address);
// The file name in a UNIX address; empty where there is none.
std::string unix_path(const std::string &address);

// Descriptors that came with a message (SCM_RIGHTS): further ones of the same open files.
struct PassedDescriptors {
    uint64_t position = 0; // in the queue, of the bytes that they came with
    uint64_t size = 0;
    uint32_t packet = 0; // where packets are kept apart: which one
    std::vector<Fd> descriptors;
};

struct SocketQueue {
    std::string bytes;
    std::vector<uint32_t> packets;    // their sizes, where the socket keeps them apart
    std::vector<std::string> senders; // of each packet: the name, as bind(2) takes it, or nothing
    std::vector<PassedDescriptors> passed;
    bool way_told = false; // of packets: where they were sent to, or how far they came
};

// What waits in a UNIX or UDP socket, left there; ENOTSUP: something that cannot be saved.
Result<SocketQueue> peek_queue(int fd, const SocketLook &look);

} // namespace cryo::capture
