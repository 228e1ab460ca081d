// SPDX-License-Identifier: Apache-2.0
#include "server/server.hpp"

#include "base/clock.hpp"
#include "coord/message.hpp"
#include "server/addresses.hpp"
#include "server/key.hpp"

#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace cryo::server {

namespace {

using coord::Channel;

constexpr coord::Strangers::Limits without_proof = {.most = 16, .milliseconds = 3000};
constexpr int64_t look_ms = 1000;

Error failure(const HostAndPort &at, const Error &error)
{
    const std::string text = fmt::format("--listen {}: {}", at.text(), strerror(error.code()));
    if (error.code() == EADDRINUSE)
        return {error.code(), text + "; another program listens there ('ss -ltnp' shows which): "
                                     "name another port"};
    if (error.code() == EADDRNOTAVAIL)
        return {error.code(), text + "; name an address that this machine has ('ip address')"};
    return {error.code(), text};
}

} // namespace

Server::Server(ServerOptions options, std::string secret)
    : options_(std::move(options)), secret_(std::move(secret)), strangers_(loop_, without_proof)
{}

Result<std::unique_ptr<Server>> Server::open(const ServerOptions &options, std::string secret)
{
    std::unique_ptr<Server> server(new Server(options, std::move(secret)));
    Result<std::unique_ptr<Depot>> depot = Depot::open(options.directory, options.quota);
    if (!depot)
        return depot.error();
    server->depot_ = std::move(*depot);
    if (Result<void> listens = server->listen(); !listens)
        return listens.error();
    return server;
}

Result<void> Server::listen()
{
    const Result<std::vector<std::string>> addresses = addresses_of(options_.listen);
    if (!addresses)
        return addresses.error().within("--listen");
    Result<coord::Listening> kept = coord::keep_port(addresses->front(), options_.listen.port);
    if (!kept)
        return failure(options_.listen, kept.error());
    listening_ = std::move(*kept);
    // Connections that a server leaves do not keep the port from the next one that names it.
    const int on = 1;
    setsockopt(listening_.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (Result<void> listens = listening_.listen(); !listens)
        return failure(options_.listen, listens.error());
    options_.listen.port = listening_.port;
    loop_.watch(listening_.socket.get(), POLLIN, [this](short) { accept(); });
    return {};
}

void Server::accept()
{
    Fd socket(accept4(listening_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket)
        return loop_.rest(listening_.socket.get());
    coord::be_quick(socket.get());
    const std::string from = coord::address_to(socket.get());
    auto tls =
        std::make_unique<coord::Tls>([this](const std::string &name) -> std::optional<coord::Key> {
            return node_in(name) ? std::optional(coord::derived_key(secret_, name)) : std::nullopt;
        });
    const std::shared_ptr<Channel> channel =
        Channel::make(loop_, std::move(socket), std::move(tls));
    channel->limit(coord::most_piece);
    strangers_.meet(channel, from);
    channel->on_secure = [this, at = channel.get()] { welcome(at->shared_from_this()); };
}

void Server::welcome(const std::shared_ptr<Channel> &channel)
{
    if (!strangers_.known(*channel))
        return channel->close();
    if (sessions_.size() >= options_.most_clients) {
        channel->send(coord::Message(
            coord::Type::failed,
            {{"error", fmt::format("the server has {} clients, which is the most that it takes",
                                   sessions_.size())},
             {"code", unsigned(EBUSY)}}));
        return channel->close_when_sent();
    }
    const uint64_t number = ++numbers_;
    sessions_[number] = std::make_unique<Session>(
        *depot_, channel, node_in(channel->tls()->peer()).value_or("?"),
        [this, number](const std::shared_ptr<IncomingImage> &image) { publish(image, number); });
    channel->on_end = [this, number] { sessions_.erase(number); };
    if (!std::exchange(looking_, true))
        loop_.after(look_ms, [this] { look(); });
}

// What has come as a whole is kept, even if its client is gone by then.
void Server::publish(const std::shared_ptr<IncomingImage> &image, uint64_t session)
{
    const uint64_t number = ++numbers_;
    asides_[number] = std::make_unique<coord::Aside>(
        loop_, [image] { return image->publish(); },
        [this, image, session, number](const Result<void> &done) {
            const Result<StoredImage> entered = done ? depot_->enter(*image) : done.error();
            if (const auto at = sessions_.find(session); at != sessions_.end())
                at->second->published(entered);
            asides_.erase(number);
        });
}

void Server::look()
{
    std::erase_if(sessions_, [&](const auto &one) {
        return !one.second->look(now_ns(), uint64_t(options_.patience_s) * 1'000'000'000);
    });
    looking_ = !sessions_.empty();
    if (looking_)
        loop_.after(look_ms, [this] { look(); });
}

Result<void> Server::end_at_signals()
{
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    sigprocmask(SIG_BLOCK, &ending, nullptr);
    told_ = Fd(signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!told_)
        return Error::from_errno("signalfd", errno);
    loop_.watch(told_.get(), POLLIN, [this](short) { loop_.stop(); });
    return {};
}

void Server::work()
{
    loop_.run();
}

} // namespace cryo::server
