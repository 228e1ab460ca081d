// SPDX-License-Identifier: Apache-2.0
//
// Addresses of TCP sockets, and ended connections that keep theirs for a minute (TIME_WAIT).
//
//     end_lingering({{one.local, one.peer}, {other.local, other.peer}});
//     if (!bound && port_lingers(address.port())) // the port is free again soon
#pragma once

#include "image/records.hpp"
#include "look/socket_look.hpp"

#include <algorithm>
#include <cstring>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace cryo::resources {

class TcpAddress
{
  public:
    explicit TcpAddress(image::Bytes bytes)
        : size_(static_cast<socklen_t>(std::min(bytes.size(), sizeof(storage_))))
    {
        if (size_ > 0) // of no bytes the address may be null
            memcpy(&storage_, bytes.data(), size_);
    }
    static TcpAddress of_peer(int fd)
    {
        TcpAddress address{image::Bytes()};
        address.size_ = sizeof(storage_);
        if (getpeername(fd, reinterpret_cast<sockaddr *>(&address.storage_), &address.size_) != 0)
            address.size_ = 0;
        return address;
    }
    static TcpAddress of_own(int fd)
    {
        TcpAddress address{image::Bytes()};
        address.size_ = sizeof(storage_);
        if (getsockname(fd, reinterpret_cast<sockaddr *>(&address.storage_), &address.size_) != 0)
            address.size_ = 0;
        return address;
    }

    bool is_of(uint32_t domain) const
    {
        return storage_.ss_family == domain &&
               size_ == (domain == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    }
    // The port lies at the same place in both families.
    uint16_t port() const
    {
        return ntohs(reinterpret_cast<const sockaddr_in &>(storage_).sin_port);
    }
    TcpAddress without_port() const
    {
        TcpAddress other = *this;
        reinterpret_cast<sockaddr_in &>(other.storage_).sin_port = 0;
        return other;
    }
    bool is_any() const
    {
        if (storage_.ss_family == AF_INET)
            return reinterpret_cast<const sockaddr_in &>(storage_).sin_addr.s_addr == INADDR_ANY;
        return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6 &>(storage_).sin6_addr);
    }
    // Whether the hosts are the same, whatever the ports; flow labels do not count.
    bool same_host(const TcpAddress &other) const
    {
        if (storage_.ss_family != other.storage_.ss_family)
            return false;
        if (storage_.ss_family == AF_INET)
            return reinterpret_cast<const sockaddr_in &>(storage_).sin_addr.s_addr ==
                   reinterpret_cast<const sockaddr_in &>(other.storage_).sin_addr.s_addr;
        return IN6_ARE_ADDR_EQUAL(
            &reinterpret_cast<const sockaddr_in6 &>(storage_).sin6_addr,
            &reinterpret_cast<const sockaddr_in6 &>(other.storage_).sin6_addr);
    }
    bool same(const TcpAddress &other) const { return port() == other.port() && same_host(other); }
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage_); }
    socklen_t size() const { return size_; }
    std::string text() const
    {
        return capture::printable_address(
            std::string(reinterpret_cast<const char *>(&storage_), size_));
    }

  private:
    sockaddr_storage storage_ = {};
    socklen_t size_;
};

// Whether an ended connection keeps this port.
bool port_lingers(uint16_t port);

struct TcpEnd {
    TcpAddress local, peer;
};

// Ends lingering connections that had these ends, as far as that can be done.
void end_lingering(const std::vector<TcpEnd> &ends);

} // namespace cryo::resources
