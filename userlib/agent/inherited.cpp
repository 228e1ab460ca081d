// SPDX-License-Identifier: Apache-2.0
#include "agent/inherited.hpp"

#include "agent/agent.hpp"
#include "agent/directory.hpp"
#include "agent/kept_numbers.hpp"
#include "agent/room.hpp"
#include "sys/raw.hpp"

#include <atomic>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>

namespace cryo::agent {

namespace {

// The kernel copies descriptors before memory, so the child's memory may stem from a moment after
// those descriptors were closed in the parent: therefore closing them does not clear this.
std::atomic<bool> perhaps;

// O_NONBLOCK and O_ASYNC have no effect on files of /proc, so no other code sets them: they mark
// the file as the agent's from its opening on.
constexpr int mark = O_NONBLOCK | O_ASYNC;

bool is_marked(int fd)
{
    const long flags = sys::call(SYS_fcntl, fd, F_GETFL);
    struct statfs system = {};
    return !sys::failed(flags) && (flags & (mark | O_ACCMODE)) == (mark | O_RDONLY) &&
           !sys::failed(sys::call(SYS_fstatfs, fd, &system)) && system.f_type == PROC_SUPER_MAGIC;
}

struct Name {
    sockaddr_un address = {};
    socklen_t size = sizeof(address);
};

bool has_name(int fd, Name &name)
{
    return !sys::failed(sys::call(SYS_getsockname, fd, &name.address, &name.size));
}

// A connection has the name of the listener that accepted it.
bool is_connection(int fd, const Name &listener)
{
    Name name;
    if (!has_name(fd, name) || name.size != listener.size)
        return false;
    const auto *one = reinterpret_cast<const char *>(&name.address);
    const auto *other = reinterpret_cast<const char *>(&listener.address);
    for (socklen_t i = 0; i < name.size; i++) {
        if (one[i] != other[i])
            return false;
    }
    return true;
}

bool is_connection_of_ours(int fd)
{
    Name listener;
    return has_name(state.listener, listener) && is_connection(fd, listener);
}

} // namespace

long open_briefly(const char *path)
{
    perhaps.store(true);
    const long fd = with_room(
        [path] { return sys::call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | mark); });
    return keep(fd, is_marked);
}

long accept_connection()
{
    perhaps.store(true);
    const long fd = with_room(
        [] { return sys::call(SYS_accept4, state.listener, nullptr, nullptr, SOCK_CLOEXEC); });
    return keep(fd, is_connection_of_ours);
}

void close_inherited()
{
    if (!perhaps.exchange(false))
        return;
    Name listener;
    const bool named = state.listener > 0 && has_name(state.listener, listener);
    const long dir = with_room(
        [] { return sys::call(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_CLOEXEC); });
    if (sys::failed(dir))
        return;
    alignas(8) static char entries[4096];
    each_number(dir, entries, [&](int fd) -> long {
        const bool ours = fd != dir && fd != state.listener &&
                          (is_marked(fd) || (named && is_connection(fd, listener)));
        return ours ? sys::call(SYS_close, fd) : 0;
    });
    sys::call(SYS_close, dir);
}

} // namespace cryo::agent
