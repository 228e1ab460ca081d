// SPDX-License-Identifier: Apache-2.0
#include "backend/criu_hook.hpp"

#include "sys/own_variable.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

namespace cryo::backend {

namespace {

constexpr const char *variable = "CRYO_CRIU_HOOK"; // the abstract address of the waiting process
constexpr char go = 'g';

struct Address {
    sockaddr_un socket = {};
    socklen_t length = 0;

    explicit Address(std::string_view name)
    {
        socket.sun_family = AF_UNIX;
        name = name.substr(0, sizeof(socket.sun_path) - 1);
        memcpy(socket.sun_path + 1, name.data(), name.size());
        length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    }
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&socket); }
};

// The address of a waiting process, without its random end.
std::string address_of(pid_t waiting)
{
    return fmt::format("cryo-criu.{}.", waiting);
}

// The pid of the process that made the connection, or listened for it, if its user is ours; else 0.
pid_t peer_of(int connection)
{
    ucred peer = {};
    socklen_t size = sizeof(peer);
    const bool known = getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    return known && peer.uid == geteuid() ? peer.pid : 0;
}

} // namespace

std::optional<int> CriuHook::answer_criu()
{
    const char *action = getenv("CRTOOLS_SCRIPT_ACTION");
    const char *name = sys::own_variable(variable);
    if (action == nullptr || name == nullptr)
        return std::nullopt;
    if (strcmp(action, "post-dump") != 0)
        return 0;
    const Address address(name);
    const Fd connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!connection || connect(connection.get(), address.get(), address.length) != 0)
        return 1;
    // If the waiting process is killed, another one may take its address: criu, if it is then told
    // to go on, would end a program that has no image.
    if (!std::string_view(name).starts_with(address_of(peer_of(connection.get()))))
        return 1;
    char answer = 0;
    ssize_t n;
    do {
        n = read(connection.get(), &answer, 1);
    } while (n < 0 && errno == EINTR);
    return n == 1 && answer == go ? 0 : 1;
}

Result<CriuHook> CriuHook::make(const std::string &directory)
{
    const std::filesystem::path own = directory; // its last component is random
    const std::string name = address_of(getpid()) + own.filename().string();
    const Address address(name);
    Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!listener || bind(listener.get(), address.get(), address.length) != 0 ||
        listen(listener.get(), 1) != 0)
        return Error::from_errno("a socket for criu", errno);
    std::string path = directory + "/hook";
    std::error_code error;
    std::filesystem::create_symlink(std::filesystem::read_symlink("/proc/self/exe", error), path,
                                    error);
    if (error)
        return Error::from_errno(path, error.value());
    return CriuHook(std::move(listener), std::move(path), fmt::format("{}={}", variable, name));
}

bool CriuHook::await(pid_t criu)
{
    const Fd ended(static_cast<int>(syscall(SYS_pidfd_open, criu, 0)));
    while (!connection_) {
        pollfd look[] = {{listener_.get(), POLLIN, 0}, {ended.get(), POLLIN, 0}};
        if (poll(look, 2, -1) < 0 && errno != EINTR)
            return false;
        if ((look[0].revents & POLLIN) != 0) {
            connection_.reset(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (connection_ && peer_of(connection_.get()) == 0)
                connection_.reset();
        } else if ((look[1].revents & POLLIN) != 0) {
            return false;
        }
    }
    return true;
}

bool CriuHook::give_leave() const
{
    return send(connection_.get(), &go, 1, MSG_NOSIGNAL) == 1;
}

} // namespace cryo::backend
