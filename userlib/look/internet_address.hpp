// SPDX-License-Identifier: Apache-2.0
//
// Host and port of an IPv4 or IPv6 address in a common form, since an IPv6 socket writes IPv4
// addresses as IPv6.
//
//     const InternetAddress at(look.local), from(sender);
//     if (at.takes(from.usual(at.port()), true)) // what is sent there reaches it
//         size = from.usual(at.port()).as(AF_INET6, storage);
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <netinet/in.h>
#include <string_view>
#include <sys/socket.h>

namespace cryo::capture {

class InternetAddress
{
  public:
    // In the format of bind(2); an address of any other family has no port.
    explicit InternetAddress(std::string_view address)
    {
        sockaddr_storage storage = {};
        memcpy(&storage, address.data(), std::min(address.size(), sizeof(storage)));
        if (storage.ss_family == AF_INET6) {
            const auto &six = reinterpret_cast<const sockaddr_in6 &>(storage);
            port_ = ntohs(six.sin6_port);
            host_ = six.sin6_addr;
        } else if (storage.ss_family == AF_INET) {
            const auto &four = reinterpret_cast<const sockaddr_in &>(storage);
            port_ = ntohs(four.sin_port);
            set_four(four.sin_addr.s_addr);
        }
    }

    uint16_t port() const { return port_; }
    bool is_four() const { return IN6_IS_ADDR_V4MAPPED(&host_); }
    bool is_any() const { return is_four() ? four() == 0 : IN6_IS_ADDR_UNSPECIFIED(&host_); }
    bool is_loopback() const
    {
        return is_four() ? host_.s6_addr[12] == 127 : IN6_IS_ADDR_LOOPBACK(&host_);
    }
    // Whether this is the source address that the kernel gives a sender that is bound to no host
    // and sends to this machine itself.
    bool is_usual() const
    {
        return is_four() ? four() == htonl(INADDR_LOOPBACK) : IN6_IS_ADDR_LOOPBACK(&host_);
    }
    bool same_host(const InternetAddress &other) const
    {
        return IN6_ARE_ADDR_EQUAL(&host_, &other.host_);
    }
    bool same(const InternetAddress &other) const
    {
        return port_ == other.port_ && same_host(other);
    }
    // Whether a socket with this address receives what is sent to the other. `both`: it is an IPv6
    // socket that accepts IPv4 as well.
    bool takes(const InternetAddress &other, bool both) const
    {
        return port_ == other.port_ && port_ != 0 &&
               (same_host(other) ||
                (is_any() && (is_four() == other.is_four() || (!is_four() && both))));
    }
    // This machine's loopback address of the same kind, with this port.
    InternetAddress usual(uint16_t port) const
    {
        InternetAddress other = *this;
        other.port_ = port;
        other.host_ = in6addr_loopback;
        if (is_four())
            other.set_four(htonl(INADDR_LOOPBACK));
        return other;
    }
    // Converts it for a socket of this family; returns the size.
    socklen_t as(int family, sockaddr_storage &to) const
    {
        to = {};
        if (family == AF_INET) {
            auto &in = reinterpret_cast<sockaddr_in &>(to);
            in.sin_family = AF_INET;
            in.sin_port = htons(port_);
            in.sin_addr.s_addr = four();
            return sizeof(in);
        }
        auto &in = reinterpret_cast<sockaddr_in6 &>(to);
        in.sin6_family = AF_INET6;
        in.sin6_port = htons(port_);
        in.sin6_addr = host_;
        return sizeof(in);
    }

  private:
    uint32_t four() const
    {
        uint32_t value;
        memcpy(&value, &host_.s6_addr[12], sizeof(value));
        return value;
    }
    void set_four(uint32_t value)
    {
        host_ = {};
        host_.s6_addr[10] = host_.s6_addr[11] = 0xff;
        memcpy(&host_.s6_addr[12], &value, sizeof(value));
    }

    uint16_t port_ = 0;
    in6_addr host_ = {};
};

} // namespace cryo::capture
