// SPDX-License-Identifier: Apache-2.0
#include "coord/channel.hpp"

#include "base/clock.hpp"

#include <cerrno>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace cryo::coord {

namespace {

// In one turn: a peer that sends faster than that is read, or much that is small, or what takes
// long to answer, must not keep everybody else waiting.
constexpr int most_reads = 16;
constexpr int most_frames = 256;
constexpr uint64_t most_ns = 20'000'000;

} // namespace

template <class Callback, class... Arguments>
void Channel::tell(const Callback &callback, Arguments... arguments)
{
    if (!callback)
        return;
    const auto told = callback; // the callback may replace itself
    try {
        told(arguments...);
    } catch (const std::exception &) { // no memory, a failing file system: only the connection ends
        refuse();
    }
}

std::shared_ptr<Channel> Channel::make(Loop &loop, Fd socket, std::unique_ptr<Tls> tls)
{
    std::shared_ptr<Channel> channel(new Channel(loop, std::move(socket), std::move(tls)));
    loop.watch(channel->descriptor(), POLLIN, [weak = std::weak_ptr(channel)](short events) {
        if (const std::shared_ptr<Channel> alive = weak.lock())
            alive->ready(events);
    });
    if (channel->tls_) { // a client's first message
        channel->tls_->take_output(channel->out_);
        channel->flush();
    }
    return channel;
}

std::shared_ptr<Channel> Channel::accept(Loop &loop, int listener)
{
    Fd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) {
        loop.rest(listener);
        return nullptr;
    }
    const uint32_t uid = peer_of(fd.get()).uid;
    return uid == geteuid() || uid == 0 ? make(loop, std::move(fd)) : nullptr;
}

Channel::Channel(Loop &loop, Fd socket, std::unique_ptr<Tls> tls)
    : loop_(loop), socket_(std::move(socket)), tls_(std::move(tls))
{
    if (socket_)
        fcntl(socket_.get(), F_SETFL, fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
}

Channel::~Channel()
{
    Channel::close();
}

void Channel::close()
{
    if (!socket_)
        return;
    loop_.forget(socket_.get());
    socket_.reset();
}

void Channel::end()
{
    close();
    if (const std::function<void()> told = std::move(on_end))
        told();
}

void Channel::close_when_sent()
{
    closing_ = true;
    on_frame = nullptr;
    on_end = nullptr;
    if (out_.empty())
        close();
}

void Channel::send(FrameKind kind, std::string_view body)
{
    if (!socket_)
        return;
    sent_++;
    FrameHeader header;
    header.length = static_cast<uint32_t>(body.size());
    header.kind = kind;
    char bytes[sizeof(header)];
    memcpy(bytes, &header, sizeof(header));
    if (tls_) {
        // Nothing may be sent to a peer that is not authenticated.
        if (!tls_->write(std::string(bytes, sizeof(bytes)).append(body)))
            return;
        tls_->take_output(out_);
    } else {
        out_.append(bytes, sizeof(bytes)).append(body);
    }
    flush(); // a peer that is gone is noticed when reading
}

bool Channel::flush()
{
    size_t sent = 0;
    bool alive = true;
    while (sent < out_.size()) {
        const ssize_t n = ::send(socket_.get(), out_.data() + sent, out_.size() - sent,
                                 MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            alive = errno == EAGAIN;
            break;
        }
        sent += static_cast<size_t>(n);
    }
    out_.erase(0, sent);
    loop_.change(socket_.get(), static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT));
    return alive;
}

bool Channel::take_in(std::string_view bytes)
{
    if (!tls_) {
        in_.append(bytes);
        return true;
    }
    const bool good = tls_->received(bytes) && tls_->read(in_);
    tls_->take_output(out_); // also an alert that gives the reason
    flush();
    return good;
}

bool Channel::read_all()
{
    char bytes[65536];
    if (in_.size() > limit_ + sizeof(FrameHeader))
        return true; // frames of an earlier turn
    for (int reads = 0; reads < most_reads; reads++) {
        const ssize_t n = recv(socket_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n > 0) {
            if (!take_in({bytes, static_cast<size_t>(n)}))
                return false;
            if (in_.size() > limit_ + sizeof(FrameHeader))
                return true; // frames first; the rest stays in the socket
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        return n < 0 && errno == EAGAIN;
    }
    return true; // the rest stays in the socket
}

void Channel::on_message(Speaker from, std::function<void(const Message &)> then)
{
    on_frame = [this, from, then = std::move(then)](FrameKind kind, std::string_view body) {
        const Result<Message> message = unpack(from, body);
        if (kind == FrameKind::json && message)
            then(*message);
        else
            refuse();
    };
}

bool Channel::take_frame(FrameKind kind, std::string_view body)
{
    taken_++;
    tell(on_frame, kind, body);
    return !refused_;
}

// False: the connection has to end.
bool Channel::take_frames()
{
    const uint64_t begun = now_ns();
    bool good = true;
    size_t at = 0;
    for (int taken = 0; good && socket_ && in_.size() - at >= sizeof(FrameHeader); taken++) {
        FrameHeader header;
        memcpy(&header, in_.data() + at, sizeof(header));
        if (header.length > limit_) {
            good = false;
            break;
        }
        if (in_.size() - at - sizeof(header) < header.length)
            break;
        if (taken == most_frames || (taken > 0 && now_ns() - begun >= most_ns)) {
            go_on_later();
            break;
        }
        const std::string body = in_.substr(at + sizeof(header), header.length);
        at += sizeof(header) + header.length;
        good = take_frame(header.kind, body);
    }
    in_.erase(0, at);
    return good || !socket_;
}

void Channel::go_on_later()
{
    if (!std::exchange(goes_on_, true))
        loop_.after(0, [weak = weak_from_this()] {
            const std::shared_ptr<Channel> alive = weak.lock();
            if (!alive || !alive->socket_)
                return;
            alive->goes_on_ = false;
            alive->ready(0);
        });
}

void Channel::ready(short events)
{
    const std::shared_ptr<Channel> keep = shared_from_this();
    bool alive = !over_;
    if (alive && (events & POLLOUT) != 0)
        alive = flush();
    if (closing_) {
        if (!alive || out_.empty() || (events & (POLLHUP | POLLERR)) != 0)
            close();
        return;
    }
    if (alive && (events & (POLLIN | POLLHUP | POLLERR)) != 0) {
        alive = read_all();
        if (tls_ && tls_->established() && on_secure && socket_)
            tell(std::exchange(on_secure, nullptr));
    }
    over_ = !alive;
    const bool good = !refused_ && (!socket_ || take_frames());
    if (socket_ && (!good || (over_ && !goes_on_)))
        end();
}

Peer peer_of(int socket)
{
    ucred peer = {};
    socklen_t size = sizeof(peer);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return {~0U, 0};
    return {peer.uid, peer.pid};
}

} // namespace cryo::coord
