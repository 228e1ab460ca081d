// SPDX-License-Identifier: Apache-2.0
// RULE for this file: what may run in a signal handler, perhaps in the middle of malloc or with
// another library's thread-local storage, makes raw system calls and nothing else.
#include "coord/rank_side.hpp"

#include "agent/interface.hpp"
#include "coord/rank_end.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

namespace cryo::coord {

namespace {

constexpr int floor_fd = 970; // out of the way of the program's own
constexpr int look_ms = 500;  // between checks for a silent daemon

const agent::Interface *agent_of_process()
{
    return &agent::cryo_agent_interface != nullptr ? agent::cryo_agent_interface : nullptr;
}

uint32_t restarts_of_process()
{
    const agent::Interface *agent = agent_of_process();
    return agent != nullptr && agent->size > offsetof(agent::Interface, restarts)
               ? agent->restarts()
               : 0;
}

int64_t now_ms()
{
    timespec time = {};
    sys::call(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    return int64_t(time.tv_sec) * 1000 + time.tv_nsec / 1'000'000;
}

} // namespace

bool ByteStore::append(const void *bytes, size_t count)
{
    char *to = room(count);
    if (to == nullptr)
        return false;
    const char *from = static_cast<const char *>(bytes);
    for (size_t i = 0; i < count; i++)
        to[i] = from[i];
    used_ += count;
    return true;
}

char *ByteStore::room(size_t count)
{
    if (used_ + count > capacity_) {
        size_t wanted = capacity_ == 0 ? 65536 : capacity_;
        while (wanted < used_ + count)
            wanted *= 2;
        const long at = capacity_ == 0
                            ? sys::call(SYS_mmap, nullptr, wanted, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                            : sys::call(SYS_mremap, data_, capacity_, wanted, MREMAP_MAYMOVE);
        if (sys::failed(at))
            return nullptr;
        data_ = reinterpret_cast<char *>(at);
        capacity_ = wanted;
    }
    return data_ + used_;
}

void ByteStore::drop_front(size_t count)
{
    for (size_t i = count; i < used_; i++)
        data_[i - count] = data_[i];
    used_ -= count;
}

void RankSide::signalled(void *self)
{
    auto &side = *static_cast<RankSide *>(self);
    if (side.inside_.load() != 0)
        side.missed_.store(true);
    else if (side.arrived_ != nullptr)
        side.arrived_(side.argument_);
}

void RankSide::on_arrival(Arrived arrived, void *argument)
{
    argument_ = argument;
    arrived_ = arrived;
}

// A forked child has the descriptor, but must not use it; a restored copy has lost it.
bool RankSide::is_ours() const
{
    return fd_ >= 0 && pid_ == static_cast<int>(sys::call(SYS_getpid)) &&
           restarts_ == restarts_of_process();
}

int RankSide::out_of_the_way(int socket)
{
    long fd = sys::call(SYS_fcntl, socket, F_DUPFD_CLOEXEC, floor_fd);
    if (sys::failed(fd))
        fd = sys::call(SYS_fcntl, socket, F_DUPFD_CLOEXEC, 100); // a low RLIMIT_NOFILE
    if (sys::failed(fd))
        return socket;
    sys::call(SYS_close, socket);
    return static_cast<int>(fd);
}

int RankSide::adopt(int socket)
{
    fd_ = out_of_the_way(socket);
    pid_ = static_cast<int>(sys::call(SYS_getpid));
    restarts_ = restarts_of_process();
    in_.clear();
    out_.clear();
    messages_.clear();
    welcome_ = answered_ = asked_ = needs_leash_ = refused_ = false;
    if (const agent::Interface *agent = agent_of_process(); agent != nullptr)
        agent->own_fd(fd_, agent::OwnFdKind::other);
    return fd_;
}

// From now on an arrival raises the checkpoint signal.
void RankSide::watch()
{
    const agent::Interface *agent = agent_of_process();
    if (agent != nullptr && agent->size > offsetof(agent::Interface, watch_fd))
        agent->watch_fd(fd_, signalled, this);
}

void RankSide::drop_connection()
{
    if (fd_ < 0)
        return;
    if (const agent::Interface *agent = agent_of_process(); agent != nullptr && is_ours()) {
        if (agent->size > offsetof(agent::Interface, watch_fd))
            agent->watch_fd(-1, nullptr, nullptr);
        agent->disown_fd(fd_);
        sys::call(SYS_close, fd_);
    }
    fd_ = -1;
}

void RankSide::disconnect()
{
    const Inside inside(*this);
    say_farewell();
    drop_connection();
}

// Without it a supervised job has lost this rank. So the daemon gets time to take it.
void RankSide::say_farewell()
{
    constexpr int most_looks = 20;
    const Ending how = Ending::well;
    if (!is_ours())
        return;
    put(FrameKind::ending, &how, sizeof(how));
    for (int looks = 0; fd_ >= 0 && flush() && out_.size() > 0 && looks < most_looks; looks++) {
        pollfd look = {fd_, POLLOUT, 0};
        sys::call(SYS_poll, &look, 1, look_ms);
    }
    forget_end();
}

void RankSide::put(FrameKind kind, const void *body, size_t length)
{
    FrameHeader header;
    header.length = static_cast<uint32_t>(length);
    header.kind = kind;
    if (!out_.append(&header, sizeof(header)) || !out_.append(body, length))
        drop_connection(); // half a frame must never go out
}

bool RankSide::flush()
{
    while (out_.size() > 0) {
        const long sent = sys::call(SYS_sendto, fd_, out_.data(), out_.size(),
                                    MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
        if (sent == -EINTR)
            continue;
        if (sent == -EAGAIN)
            return true;
        if (sys::failed(sent))
            return false;
        out_.drop_front(static_cast<size_t>(sent));
    }
    return true;
}

void RankSide::send(bookmark::Bytes message)
{
    const Inside inside(*this);
    if (!is_ours())
        return;
    put(FrameKind::bookmark, message.data(), message.size());
    if (fd_ >= 0)
        flush(); // a peer that is gone is noticed by receive()
}

bool RankSide::take_frame(FrameKind kind, const char *body, size_t length)
{
    switch (kind) {
    case FrameKind::bookmark: {
        const auto size = static_cast<uint32_t>(length);
        return messages_.append(&size, sizeof(size)) && messages_.append(body, length);
    }
    case FrameKind::welcome: {
        Welcome said;
        if (length != sizeof(said))
            return false;
        memcpy(&said, body, sizeof(said));
        patience_ms_ = said.patience_ms;
        welcome_ = true;
        return true;
    }
    case FrameKind::leash:
        needs_leash_ = true;
        return true;
    case FrameKind::refused: {
        size_t n = 0;
        for (; n < length && n + 1 < sizeof(why_); n++)
            why_[n] = body[n];
        why_[n] = 0;
        refused_ = true;
        return false;
    }
    case FrameKind::image_cut:
        cut_ = true;
        return true;
    case FrameKind::image_end:
        answered_ = true;
        may_go_ = length > 0 && body[0] == 1;
        return true;
    default:
        return true;
    }
}

// Reads what has arrived. False: the peer is gone, or sends invalid frames.
bool RankSide::pump()
{
    if (!flush())
        return false;
    for (;;) {
        char *to = in_.room(65536);
        if (to == nullptr)
            return false;
        const long got = sys::call(SYS_recvfrom, fd_, to, 65536, MSG_DONTWAIT, nullptr, nullptr);
        if (got == -EINTR)
            continue;
        if (got == -EAGAIN)
            break;
        if (got <= 0)
            return false;
        in_.grew(static_cast<size_t>(got));
        heard_ms_ = now_ms();
    }
    size_t at = 0;
    while (in_.size() - at >= sizeof(FrameHeader)) {
        FrameHeader header;
        memcpy(&header, in_.data() + at, sizeof(header));
        if (header.length > most_body)
            return false;
        if (in_.size() - at - sizeof(header) < header.length)
            break;
        if (!take_frame(header.kind, in_.data() + at + sizeof(header), header.length))
            return false;
        at += sizeof(header) + header.length;
    }
    if (at > 0)
        in_.drop_front(at);
    return true;
}

bool RankSide::receive(Deliver deliver, void *argument)
{
    const Inside inside(*this);
    const bool alive = is_ours() && pump();
    // `deliver` may call send(), which leaves messages_ alone; its message is dropped afterwards.
    while (messages_.size() >= sizeof(uint32_t)) {
        uint32_t size = 0;
        memcpy(&size, messages_.data(), sizeof(size));
        const char *message = messages_.data() + sizeof(size);
        note(message, size);
        deliver(argument, {reinterpret_cast<const uint8_t *>(message), size});
        messages_.drop_front(sizeof(size) + size);
    }
    if (alive && hears_nothing()) {
        put(FrameKind::left, &epoch_, sizeof(epoch_));
        if (fd_ >= 0)
            flush();
        asked_ = false;
        deliver_abandon(deliver, argument);
    }
    if (alive)
        return true;
    // The restored copy of a rank has no checkpoint under way, whatever it was before.
    const bool give_up = asked_ && restarts_ == restarts_of_process();
    drop_connection();
    asked_ = false;
    if (give_up)
        deliver_abandon(deliver, argument);
    return false;
}

// To be called after pump(), which has read what has arrived.
bool RankSide::hears_nothing() const
{
    return asked_ && now_ms() - heard_ms_ > patience_ms_;
}

// Notes the tree's checkpoint: the first byte is the type, the second word the number.
void RankSide::note(const char *message, size_t size)
{
    if (size < 8)
        return;
    const auto type = static_cast<bookmark::MessageType>(message[0]);
    memcpy(&epoch_, message + 4, sizeof(epoch_));
    if (type == bookmark::MessageType::request)
        asked_ = true;
    else if (type == bookmark::MessageType::go || type == bookmark::MessageType::abandon)
        asked_ = false;
}

void RankSide::deliver_abandon(Deliver deliver, void *argument) const
{
    bookmark::Message message(bookmark::MessageType::abandon, epoch_,
                              std::pmr::null_memory_resource());
    message.state.doing = bookmark::Doing::gone;
    alignas(16) char memory[256];
    std::pmr::monotonic_buffer_resource buffer(memory, sizeof(memory),
                                               std::pmr::null_memory_resource());
    const std::pmr::vector<uint8_t> bytes = bookmark::pack(message, &buffer);
    deliver(argument, {bytes.data(), bytes.size()});
}

int RankSide::wait(int milliseconds)
{
    if (!is_ours())
        return -ENOTCONN;
    pollfd look = {fd_, static_cast<short>(out_.size() > 0 ? POLLIN | POLLOUT : POLLIN), 0};
    const long result = sys::call(SYS_poll, &look, 1, milliseconds);
    return result > 0 ? 0 : result == 0 ? -ETIMEDOUT : static_cast<int>(result);
}

TookImage RankSide::take_image(void (*meanwhile)())
{
    const uint32_t before = restarts_of_process();
    const Inside inside(*this);
    if (!is_ours())
        return TookImage::failed;
    answered_ = false;
    cut_ = false;
    put(FrameKind::image, nullptr, 0);
    while (fd_ >= 0 && flush()) {
        if (restarts_of_process() != before)
            break;
        if (!pump())
            break;
        if (answered_)
            return may_go_ ? TookImage::saved : TookImage::failed;
        if (hears_nothing())
            return TookImage::failed;
        const bool helps = cut_ && meanwhile != nullptr;
        if (helps)
            meanwhile();
        wait(helps ? 1 : look_ms); // the image is taken in here
    }
    if (restarts_of_process() == before)
        return TookImage::failed; // receive() does the rest
    drop_connection();
    missed_.store(false);
    return TookImage::restarted;
}

} // namespace cryo::coord
