// SPDX-License-Identifier: Apache-2.0
#include "coord/net.hpp"

#include "sys/own_variable.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace cryo::coord {

namespace {

constexpr int patience_ms = 2000;

struct Address {
    sockaddr_storage storage = {};
    socklen_t length = 0;
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage); }
};

Result<Address> parse(const std::string &text, uint16_t port)
{
    Address address;
    auto *four = reinterpret_cast<sockaddr_in *>(&address.storage);
    auto *six = reinterpret_cast<sockaddr_in6 *>(&address.storage);
    if (inet_pton(AF_INET, text.c_str(), &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        address.length = sizeof(*four);
    } else if (inet_pton(AF_INET6, text.c_str(), &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        address.length = sizeof(*six);
    } else {
        return Error(EINVAL, fmt::format("{}: is no address", text));
    }
    return address;
}

// Of this node's interfaces that are up; loopback last, for daemons that are on one machine, and
// nothing that counts only on one link.
std::vector<std::string> own_addresses()
{
    std::vector<std::string> found;
    std::vector<std::string> loopback;
    ifaddrs *list = nullptr;
    if (getifaddrs(&list) != 0)
        return found;
    for (const ifaddrs *one = list; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0)
            continue;
        char text[INET6_ADDRSTRLEN] = {};
        if (one->ifa_addr->sa_family == AF_INET) {
            inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in *>(one->ifa_addr)->sin_addr, text,
                      sizeof(text));
        } else if (one->ifa_addr->sa_family == AF_INET6) {
            const in6_addr &six = reinterpret_cast<sockaddr_in6 *>(one->ifa_addr)->sin6_addr;
            if (IN6_IS_ADDR_LINKLOCAL(&six))
                continue;
            inet_ntop(AF_INET6, &six, text, sizeof(text));
        } else {
            continue;
        }
        ((one->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : found).push_back(text);
    }
    freeifaddrs(list);
    found.insert(found.end(), loopback.begin(), loopback.end());
    return found;
}

Result<Listening> listen_on(const std::string &text)
{
    Result<Address> address = parse(text, 0);
    if (!address)
        return address.error();
    Listening result;
    result.socket = Fd(socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!result.socket)
        return Error::from_errno("socket", errno);
    const int off = 0;
    if (address->storage.ss_family == AF_INET6)
        setsockopt(result.socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(result.socket.get(), address->get(), address->length) != 0 ||
        listen(result.socket.get(), 1024) != 0)
        return Error::from_errno(text, errno);
    Address bound;
    bound.length = sizeof(bound.storage);
    auto *at = reinterpret_cast<sockaddr *>(&bound.storage);
    if (getsockname(result.socket.get(), at, &bound.length) != 0)
        return Error::from_errno(text, errno);
    result.port =
        ntohs(bound.storage.ss_family == AF_INET ? reinterpret_cast<sockaddr_in *>(at)->sin_port
                                                 : reinterpret_cast<sockaddr_in6 *>(at)->sin6_port);
    return result;
}

// 0, or errno.
int connect_in_time(int fd, const Address &address)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    if (connect(fd, address.get(), address.length) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    pollfd look = {fd, POLLOUT, 0};
    int ready;
    do {
        ready = poll(&look, 1, patience_ms);
    } while (ready < 0 && errno == EINTR);
    if (ready == 0)
        return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

} // namespace

Result<Listening> listen_tcp()
{
    if (const char *own = sys::own_variable("CRYO_LISTEN"); own != nullptr && *own != 0) {
        Result<Listening> at = listen_on(own);
        if (at)
            at->addresses = {own};
        return at ? std::move(at) : at.error().within("CRYO_LISTEN");
    }
    Result<Listening> at = listen_on("::");
    if (!at)
        at = listen_on("0.0.0.0");
    if (at)
        at->addresses = own_addresses();
    return at;
}

Result<Fd> connect_tcp(const std::vector<std::string> &addresses, uint16_t port)
{
    std::string tried;
    int last = EHOSTUNREACH;
    for (const std::string &text : addresses) {
        const Result<Address> address = parse(text, port);
        Fd fd(address ? socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1);
        last = fd ? connect_in_time(fd.get(), *address) : EINVAL;
        if (last == 0) {
            const int on = 1;
            setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
            setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
            return fd;
        }
        tried += fmt::format("{}{}: {}", tried.empty() ? "" : ", ", text, strerror(last));
    }
    return Error(last, fmt::format("port {} of the job's daemon: {}", port,
                                   tried.empty() ? "no address is known" : tried));
}

} // namespace cryo::coord
