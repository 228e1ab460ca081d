// SPDX-License-Identifier: Apache-2.0
#include "resources/socket/peer_end.hpp"

#include "base/fd.hpp"
#include "look/internet_address.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <time.h>

namespace cryo::resources {

namespace {

using capture::InternetAddress;

// Some sockets take packets only from near hosts, by this field (IP_MINTTL, IPV6_MINHOPCOUNT).
constexpr uint8_t no_hop = 255;

struct PacketV4 {
    iphdr ip;
    tcphdr tcp;
};
struct PacketV6 {
    ip6_hdr ip;
    tcphdr tcp;
};
static_assert(sizeof(PacketV4) == 40 && sizeof(PacketV6) == 60);

// The Internet checksum (RFC 1071), of words in the order in which they are sent.
class Checksum
{
  public:
    template <class T>
    void add(const T &value)
    {
        constexpr size_t word_size = 2;
        static_assert(sizeof(T) % word_size == 0);
        std::array<uint16_t, sizeof(T) / word_size> words = {};
        memcpy(words.data(), &value, sizeof(value));
        for (const uint16_t word : words)
            sum_ += word;
    }
    uint16_t value() const
    {
        uint32_t sum = sum_;
        while (sum >> 16 != 0)
            sum = (sum & 0xffff) + (sum >> 16);
        return static_cast<uint16_t>(~sum);
    }

  private:
    uint32_t sum_ = 0;
};

InternetAddress host_of(const TcpAddress &address)
{
    return InternetAddress({reinterpret_cast<const char *>(address.get()), address.size()});
}

template <class Host>
tcphdr header_of(const TcpEnd &end, const EndSegment &segment, const Host &from, const Host &to)
{
    tcphdr tcp = {};
    tcp.th_sport = htons(end.peer.port());
    tcp.th_dport = htons(end.local.port());
    tcp.th_seq = htonl(segment.seq);
    tcp.th_ack = htonl(segment.acknowledged);
    tcp.th_off = sizeof(tcp) / sizeof(uint32_t);
    tcp.th_flags = TH_FIN | TH_ACK;
    tcp.th_win = htons(segment.window);
    Checksum sum; // with what of the IP header counts
    sum.add(from);
    sum.add(to);
    sum.add<uint16_t>(htons(IPPROTO_TCP));
    sum.add<uint16_t>(htons(sizeof(tcp)));
    sum.add(tcp);
    tcp.th_sum = sum.value();
    return tcp;
}

template <class Packet>
std::string bytes_of(const Packet &packet)
{
    return {reinterpret_cast<const char *>(&packet), sizeof(packet)};
}

std::string packet_v4(const TcpEnd &end, const EndSegment &segment)
{
    sockaddr_storage from = {}, to = {};
    host_of(end.peer).as(AF_INET, from);
    host_of(end.local).as(AF_INET, to);
    const in_addr peer = reinterpret_cast<const sockaddr_in &>(from).sin_addr;
    const in_addr local = reinterpret_cast<const sockaddr_in &>(to).sin_addr;
    PacketV4 packet = {};
    packet.ip.version = 4;
    packet.ip.ihl = sizeof(packet.ip) / sizeof(uint32_t);
    packet.ip.tot_len = htons(sizeof(packet));
    packet.ip.frag_off = htons(IP_DF);
    packet.ip.ttl = no_hop;
    packet.ip.protocol = IPPROTO_TCP;
    packet.ip.saddr = peer.s_addr;
    packet.ip.daddr = local.s_addr; // the kernel adds the header's own checksum
    packet.tcp = header_of(end, segment, peer, local);
    return bytes_of(packet);
}

std::string packet_v6(const TcpEnd &end, const EndSegment &segment)
{
    sockaddr_storage from = {}, to = {};
    host_of(end.peer).as(AF_INET6, from);
    host_of(end.local).as(AF_INET6, to);
    PacketV6 packet = {};
    packet.ip.ip6_flow = htonl(6U << 28); // the version
    packet.ip.ip6_plen = htons(sizeof(packet.tcp));
    packet.ip.ip6_nxt = IPPROTO_TCP;
    packet.ip.ip6_hlim = no_hop;
    packet.ip.ip6_src = reinterpret_cast<const sockaddr_in6 &>(from).sin6_addr;
    packet.ip.ip6_dst = reinterpret_cast<const sockaddr_in6 &>(to).sin6_addr;
    packet.tcp = header_of(end, segment, packet.ip.ip6_src, packet.ip.ip6_dst);
    return bytes_of(packet);
}

// Whether packets to it stay on this machine. That an address can be bound does not say so
// (IP_TRANSPARENT, net.ipv4.ip_nonlocal_bind).
bool is_own(const InternetAddress &host)
{
    if (host.is_loopback())
        return true;
    ifaddrs *first = nullptr;
    if (getifaddrs(&first) != 0)
        return false;
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs *)> all(first, freeifaddrs);
    for (const ifaddrs *one = all.get(); one != nullptr; one = one->ifa_next) {
        const int family = one->ifa_addr != nullptr ? one->ifa_addr->sa_family : AF_UNSPEC;
        if (family != AF_INET && family != AF_INET6)
            continue;
        const size_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        const std::string_view bytes(reinterpret_cast<const char *>(one->ifa_addr), size);
        if (InternetAddress(bytes).same_host(host))
            return true;
    }
    return false;
}

Result<Fd> open_raw(const TcpEnd &end)
{
    const InternetAddress local = host_of(end.local);
    if (!is_own(local))
        return Error(EADDRNOTAVAIL,
                     "its peer has shut it down for writing, and a packet that tells "
                     "a socket so would leave this machine, as no interface has "
                     "the address of the connection");
    Fd raw(socket(local.is_four() ? AF_INET : AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
    if (!raw && errno == EPERM)
        return Error(EPERM, "its peer has shut it down for writing, and to tell a socket so takes "
                            "the capability CAP_NET_RAW in the network namespace, as root has it");
    if (!raw)
        return Error::from_errno("opening a raw socket", errno);
    return raw;
}

// One packet does, unless something on its way is short of memory for a moment.
constexpr int most_packets = 10, patience_ms = 200;

// `arrived` waits for that, with this patience.
template <class Arrived>
Result<void> send_end(const TcpEnd &end, const EndSegment &segment, uint32_t mark,
                      const Arrived &arrived)
{
    Result<Fd> raw = open_raw(end);
    if (!raw)
        return raw.error();
    if (setsockopt(raw->get(), SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) != 0)
        return Error::from_errno("marking packets (SO_MARK)", errno);
    const InternetAddress local = host_of(end.local);
    sockaddr_storage to = {};
    const socklen_t size = local.as(local.is_four() ? AF_INET : AF_INET6, to);
    reinterpret_cast<sockaddr_in &>(to).sin_port = 0; // of a raw socket this is the protocol
    if (!local.is_four())
        reinterpret_cast<sockaddr_in6 &>(to).sin6_scope_id =
            reinterpret_cast<const sockaddr_in6 *>(end.local.get())->sin6_scope_id;
    const std::string packet = local.is_four() ? packet_v4(end, segment) : packet_v6(end, segment);
    std::string why;
    for (int i = 0; i < most_packets; i++) {
        const bool sent = sendto(raw->get(), packet.data(), packet.size(), 0,
                                 reinterpret_cast<const sockaddr *>(&to), size) >= 0;
        why = sent ? std::string() : fmt::format(" ({})", strerror(errno));
        if (arrived())
            return {};
    }
    return Error(ENOTSUP, fmt::format("its peer has shut it down for writing, and a packet that "
                                      "tells a socket so does not arrive: routes or the packet "
                                      "filter of this machine stop it{}",
                                      why));
}

// How many packets have come to a socket; 0: unknown. libc's header ends before that.
uint32_t packets_of(int fd)
{
    struct {
        tcp_info first;
        uint64_t rates[2], acknowledged, received;
        uint32_t segments_out, segments_in;
    } info = {};
    socklen_t size = sizeof(info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? info.segments_in : 0;
}

} // namespace

Result<void> tell_end(int fd, const TcpEnd &end, const EndSegment &segment, uint32_t mark)
{
    return send_end(end, segment, mark, [fd] {
        pollfd ended = {fd, POLLRDHUP, 0};
        return poll(&ended, 1, patience_ms) == 1 && (ended.revents & POLLRDHUP) != 0;
    });
}

Result<void> try_end(int fd, const TcpEnd &end, const EndSegment &segment, uint32_t mark)
{
    return send_end(end, segment, mark, [fd, before = packets_of(fd)] {
        constexpr timespec pause = {0, 1'000'000};
        bool arrived = packets_of(fd) != before; // at once, unless the processor has other work
        for (int i = 0; i < patience_ms && !arrived; i++) {
            nanosleep(&pause, nullptr);
            arrived = packets_of(fd) != before;
        }
        return arrived;
    });
}

} // namespace cryo::resources
