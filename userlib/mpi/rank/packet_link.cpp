// SPDX-License-Identifier: Apache-2.0
#include "mpi/rank/packet_link.hpp"
#include "mpi/rank/memory.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace cryo::mpi::rank {

namespace {

Channel::Arrived told;

void on_signal(int /*signal*/)
{
    told();
}

} // namespace

PacketLink::PacketLink(int descriptor) : descriptor_(descriptor), waiting_(&memory()) {}

int PacketLink::connect(const char *path, uint32_t rank)
{
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const size_t length = strlen(path);
    if (length >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, length); // the rest is zero
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (::connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)) != 0 ||
        ::send(fd, &rank, sizeof(rank), MSG_NOSIGNAL) != sizeof(rank)) {
        const int why = errno;
        ::close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

// The signal goes to the thread that initialized MPI.
void PacketLink::listen(Arrived arrived)
{
    told = arrived;
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGIO, &action, nullptr);
    const f_owner_ex owner = {.type = F_OWNER_TID, .pid = gettid()};
    fcntl(descriptor_, F_SETOWN_EX, &owner);
    fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) | O_ASYNC | O_NONBLOCK);
    arrived(); // messages may have arrived before
}

void PacketLink::close()
{
    ::close(descriptor_);
}

void PacketLink::flush()
{
    while (!waiting_.empty()) {
        const auto &next = waiting_.front();
        if (::send(descriptor_, next.data(), next.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
            (errno == EAGAIN || errno == EINTR))
            return;
        waiting_.pop_front();
    }
}

void PacketLink::send(bookmark::Bytes message)
{
    waiting_.emplace_back(message.begin(), message.end());
    flush();
}

bool PacketLink::receive(bookmark::Rank &rank)
{
    flush();
    std::pmr::vector<uint8_t> packet(&memory());
    for (;;) {
        const ssize_t size = recv(descriptor_, nullptr, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
        if (size < 0)
            return errno == EAGAIN || errno == EINTR;
        if (size == 0)
            return false;
        packet.resize(static_cast<size_t>(size));
        if (recv(descriptor_, packet.data(), packet.size(), MSG_DONTWAIT) != size)
            return false;
        rank.handle(packet);
    }
}

} // namespace cryo::mpi::rank
