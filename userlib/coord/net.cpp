// SPDX-License-Identifier: Apache-2.0
#include "coord/net.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
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

std::string text_of(const sockaddr_storage &address, socklen_t length)
{
    char text[INET6_ADDRSTRLEN] = {};
    if (getnameinfo(reinterpret_cast<const sockaddr *>(&address), length, static_cast<char *>(text),
                    sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0)
        return {};
    return static_cast<const char *>(text);
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

Result<Listening> keep_port(const std::string &text, uint16_t port)
{
    Result<Address> address = parse(text, port);
    if (!address)
        return address.error();
    Listening result;
    result.socket =
        Fd(socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!result.socket)
        return Error::from_errno("socket", errno);
    // Connections of a server that has ended just now do not keep a port that was named.
    const int on = port != 0 ? 1 : 0;
    setsockopt(result.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(result.socket.get(), address->get(), address->length) != 0)
        return Error::from_errno(text, errno);
    Address bound;
    bound.length = sizeof(bound.storage);
    auto *at = reinterpret_cast<sockaddr *>(&bound.storage);
    if (getsockname(result.socket.get(), at, &bound.length) != 0)
        return Error::from_errno(text, errno);
    result.port =
        ntohs(bound.storage.ss_family == AF_INET ? reinterpret_cast<sockaddr_in *>(at)->sin_port
                                                 : reinterpret_cast<sockaddr_in6 *>(at)->sin6_port);
    result.addresses = {text};
    return result;
}

Result<void> Listening::listen() const
{
    if (::listen(socket.get(), 1024) != 0)
        return Error::from_errno(addresses.front(), errno);
    return {};
}

void be_quick(int socket)
{
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

std::string address_from(int socket)
{
    sockaddr_storage address = {};
    socklen_t length = sizeof(address);
    if (getsockname(socket, reinterpret_cast<sockaddr *>(&address), &length) != 0)
        return {};
    return text_of(address, length);
}

std::string address_to(int socket)
{
    sockaddr_storage address = {};
    socklen_t length = sizeof(address);
    if (getpeername(socket, reinterpret_cast<sockaddr *>(&address), &length) != 0)
        return {};
    return text_of(address, length);
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
            be_quick(fd.get());
            return fd;
        }
        tried += fmt::format("{}{}: {}", tried.empty() ? "" : ", ", text, strerror(last));
    }
    return Error(last, fmt::format("port {} of the job's daemon: {}", port,
                                   tried.empty() ? "no address is known" : tried));
}

} // namespace cryo::coord
