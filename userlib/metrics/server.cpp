// SPDX-License-Identifier: Apache-2.0
#include "metrics/server.hpp"

#include "base/clock.hpp"
#include "base/fd.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <optional>
#include <string_view>
#include <sys/socket.h>

namespace cryo::metrics {

namespace {

constexpr size_t most_connections = 64;
constexpr unsigned connections_of_library = most_connections + 16; // never reached
constexpr uint64_t longest_ns = 10'000'000'000;                    // of a connection
constexpr size_t memory_of_connection = 16 << 10;                  // for what its client sends
constexpr uint64_t page_lasts_ns = 1'000'000'000;
constexpr int patience_of_library_ms = 1000;

constexpr const char *text_type = "text/plain; charset=utf-8";

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

struct Place {
    std::string host;
    std::string port;
};

// 127.0.0.1:9464, or [::1]:9464.
std::optional<Place> place_of(const std::string &address)
{
    const size_t colon = address.rfind(':');
    if (colon == std::string::npos)
        return {};
    Place place = {address.substr(0, colon), address.substr(colon + 1)};
    if (place.host.starts_with('[') && place.host.ends_with(']'))
        place.host = place.host.substr(1, place.host.size() - 2);
    else if (place.host.find(':') != std::string::npos)
        return {};
    const bool digits =
        std::ranges::all_of(place.port, [](char c) { return c >= '0' && c <= '9'; });
    return !place.host.empty() && !place.port.empty() && place.port.size() <= 5 && digits &&
                   std::stoul(place.port) <= 65535
               ? std::optional(place)
               : std::nullopt;
}

Result<AddressList> resolve(const std::string &address)
{
    const std::optional<Place> place = place_of(address);
    if (!place)
        return Error(EINVAL, fmt::format("--listen: wants an address and a port, as in "
                                         "127.0.0.1:9464 or [::1]:9464, not '{}'",
                                         address));
    addrinfo wanted = {};
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_NUMERICSERV;
    addrinfo *found = nullptr;
    if (const int error = getaddrinfo(place->host.c_str(), place->port.c_str(), &wanted, &found))
        return Error(EINVAL, fmt::format("--listen {}: {}", address, gai_strerror(error)));
    return AddressList(found, freeaddrinfo);
}

Error failure(const std::string &address, int error)
{
    Error plain = Error::from_errno("--listen " + address, error);
    if (error == EADDRINUSE)
        return plain.with_more("; another program listens there ('ss -ltnp' shows which): name "
                               "another port");
    if (error == EACCES)
        return plain.with_more("; ports below 1024 are root's: name another one");
    if (error == EADDRNOTAVAIL)
        return plain.with_more("; name an address that this machine has ('ip address')");
    return plain;
}

Result<Fd> listen_on(const std::string &address, const addrinfo &where)
{
    Fd fd(socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    // Connections of one that has ended just now do not keep the port.
    if (!fd || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd.get(), where.ai_addr, where.ai_addrlen) != 0 || ::listen(fd.get(), SOMAXCONN) != 0)
        return failure(address, errno);
    return fd;
}

bool is_loopback(const sockaddr_storage &address)
{
    if (address.ss_family == AF_INET)
        return (ntohl(reinterpret_cast<const sockaddr_in &>(address).sin_addr.s_addr) >> 24) == 127;
    const auto &v6 = reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr;
    return address.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6);
}

Result<std::string> text_of(const sockaddr_storage &address, socklen_t size)
{
    char host[NI_MAXHOST] = {};
    char port[NI_MAXSERV] = {};
    if (const int error =
            getnameinfo(reinterpret_cast<const sockaddr *>(&address), size, host, sizeof(host),
                        port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
        return Error(EINVAL, std::string("--listen: ") + gai_strerror(error));
    return address.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port)
                                         : fmt::format("{}:{}", host, port);
}

struct Destroying {
    void operator()(MHD_Response *response) const { MHD_destroy_response(response); }
};
// Lives until the last client has got it, too.
using Response = std::unique_ptr<MHD_Response, Destroying>;

bool add_header(const Response &response, const char *name, const char *value)
{
    return MHD_add_response_header(response.get(), name, value) == MHD_YES;
}

// Null: for want of memory.
Response make_response(const std::string &text, const char *type)
{
    Response response(MHD_create_response_from_buffer(text.size(), const_cast<char *>(text.data()),
                                                      MHD_RESPMEM_MUST_COPY));
    if (response && add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) &&
        add_header(response, MHD_HTTP_HEADER_CONNECTION, "close"))
        return response;
    return {};
}

MHD_Result refuse_method(MHD_Connection *connection)
{
    const Response response = make_response("only GET and HEAD\n", text_type);
    if (!response || !add_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD"))
        return MHD_NO;
    return MHD_queue_response(connection, MHD_HTTP_METHOD_NOT_ALLOWED, response.get());
}

MHD_Result refuse_page(MHD_Connection *connection)
{
    const Response response = make_response("there is only /metrics\n", text_type);
    return response ? MHD_queue_response(connection, MHD_HTTP_NOT_FOUND, response.get()) : MHD_NO;
}

// All who ask within a second share one copy: it may be large, and clients need not read it.
struct Kept {
    Page page;
    Response response = {};
    uint64_t made_ns = 0;

    const Response &fresh()
    {
        const uint64_t now = now_ns();
        if (!response || now - made_ns > page_lasts_ns) {
            response = make_response(page.text(), page.type.c_str());
            made_ns = now;
        }
        return response;
    }
};

} // namespace

struct Server::Running {
    std::map<std::string, Kept> pages;
    std::string address;
    bool local = false;
    // When each connection began; the oldest is the one with the lowest number.
    struct Connection {
        uint64_t begun_ns;
        int fd;
    };
    std::map<MHD_Connection *, Connection> connections;
    MHD_Daemon *daemon = nullptr;

    Running() = default;
    Running(const Running &) = delete;
    Running &operator=(const Running &) = delete;
    ~Running()
    {
        if (daemon != nullptr)
            MHD_stop_daemon(daemon); // closes the listening socket, too
    }

    static MHD_Result on_request(void *self, MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *size, void **state);
    static void on_connection(void *self, MHD_Connection *connection, void **state,
                              MHD_ConnectionNotificationCode code);
    void close_oldest();
};

MHD_Result Server::Running::on_request(void *self, MHD_Connection *connection, const char *url,
                                       const char *method, const char *, const char *, size_t *,
                                       void **)
{
    const std::string_view word = method;
    if (word != MHD_HTTP_METHOD_GET && word != MHD_HTTP_METHOD_HEAD)
        return refuse_method(connection);
    auto &pages = static_cast<Running *>(self)->pages;
    const auto page = pages.find(url);
    if (page == pages.end())
        return refuse_page(connection);
    try {
        const Response &response = page->second.fresh();
        return response ? MHD_queue_response(connection, MHD_HTTP_OK, response.get()) : MHD_NO;
    } catch (const std::exception &) { // such as for want of memory; the library is written in C
        return MHD_NO;
    }
}

void Server::Running::close_oldest()
{
    const auto oldest = std::ranges::min_element(
        connections, {}, [](const auto &one) { return one.second.begun_ns; });
    shutdown(oldest->second.fd, SHUT_RDWR); // by which the library learns of it
    connections.erase(oldest);
}

void Server::Running::on_connection(void *self, MHD_Connection *connection, void **,
                                    MHD_ConnectionNotificationCode code)
{
    auto &running = *static_cast<Running *>(self);
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        running.connections.erase(connection);
        return;
    }
    const MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info == nullptr)
        return;
    if (running.connections.size() >= most_connections)
        running.close_oldest();
    running.connections[connection] = {now_ns(), info->connect_fd};
}

Server::Server(std::unique_ptr<Running> running) : running_(std::move(running)) {}
Server::Server(Server &&) noexcept = default;
Server &Server::operator=(Server &&) noexcept = default;
Server::~Server() = default;

Result<Server> Server::listen(const std::string &address, std::map<std::string, Page> pages)
{
    const Result<AddressList> where = resolve(address);
    if (!where)
        return where.error();
    Result<Fd> fd = listen_on(address, **where);
    if (!fd)
        return fd.error();
    sockaddr_storage bound = {};
    socklen_t size = sizeof(bound);
    if (getsockname(fd->get(), reinterpret_cast<sockaddr *>(&bound), &size) != 0)
        return failure(address, errno);
    const Result<std::string> text = text_of(bound, size);
    if (!text)
        return text.error();

    auto running = std::make_unique<Running>();
    for (auto &[path, page] : pages)
        running->pages[path].page = std::move(page);
    running->address = *text;
    running->local = is_loopback(bound);
    running->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, nullptr, nullptr, &Running::on_request, running.get(),
        MHD_OPTION_LISTEN_SOCKET, fd->get(), MHD_OPTION_CONNECTION_LIMIT, connections_of_library,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory_of_connection, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_CONNECTION, &Running::on_connection, running.get(), MHD_OPTION_END);
    if (running->daemon == nullptr)
        return Error(EIO, fmt::format("--listen {}: libmicrohttpd does not start", address));
    static_cast<void>(fd->release());
    return Server(std::move(running));
}

const std::string &Server::address() const
{
    return running_->address;
}

bool Server::is_local() const
{
    return running_->local;
}

int Server::fd() const
{
    const MHD_DaemonInfo *info = MHD_get_daemon_info(running_->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info != nullptr ? info->epoll_fd : -1;
}

int Server::patience_ms() const
{
    MHD_UNSIGNED_LONG_LONG wait = 0;
    if (MHD_get_timeout(running_->daemon, &wait) == MHD_YES)
        return static_cast<int>(std::min<uint64_t>(wait, patience_of_library_ms));
    return running_->connections.empty() ? -1 : patience_of_library_ms;
}

void Server::serve()
{
    const uint64_t now = now_ns();
    std::erase_if(running_->connections, [now](const auto &one) {
        const bool late = now - one.second.begun_ns > longest_ns;
        if (late)
            shutdown(one.second.fd, SHUT_RDWR);
        return late;
    });
    MHD_run(running_->daemon);
}

} // namespace cryo::metrics
