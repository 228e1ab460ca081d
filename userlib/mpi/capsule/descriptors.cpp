// SPDX-License-Identifier: Apache-2.0
// The capsule's descriptors lie at the top of what RLIMIT_NOFILE allows, so that the program gets
// the numbers it would get without Cryo. Each is moved there right after it is created.
#include "mpi/capsule/capsule.hpp"
#include "mpi/capsule/descriptor_owner.hpp"
#include "mpi/capsule/hooks.hpp"
#include "mpi/capsule/refuse.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

namespace cryo::capsule {

namespace {

// The kernel's table has n entries for a descriptor of number n; beyond this limit the table costs
// too much memory.
constexpr int highest = 65536;
constexpr int wished_room = 1024;

bool ours[highest]; // atomic accesses only
int first;          // where the capsule's numbers begin
int owner;          // process id

uint64_t inherited[highest]; // in a forked child: what_is() of those that are `ours`

void set_ours(long fd, bool value)
{
    __atomic_store_n(&ours[fd], value, __ATOMIC_RELAXED);
}

bool in_table(long fd)
{
    return fd >= 0 && fd < highest;
}

uint64_t what_is(int fd)
{
    struct stat status = {};
    const long failed = sys::call(SYS_fstat, fd, &status);
    return sys::failed(failed) ? 0 : status.st_ino ^ (uint64_t{status.st_dev} << 48);
}

long raise(long fd, bool close_on_exec)
{
    const long moved = sys::call(SYS_fcntl, fd, close_on_exec ? F_DUPFD_CLOEXEC : F_DUPFD, first);
    if (sys::failed(moved))
        return fd; // no free number up there: it stays where it is
    sys::call(SYS_close, fd);
    if (in_table(moved))
        set_ours(moved, true);
    return moved;
}

bool asks_close_on_exec(long number, const long *a)
{
    switch (number) {
    case SYS_open:
        return (a[1] & O_CLOEXEC) != 0;
    case SYS_openat:
        return (a[2] & O_CLOEXEC) != 0;
    case SYS_socket:
    case SYS_socketpair:
        return (a[1] & SOCK_CLOEXEC) != 0;
    case SYS_accept4:
        return (a[3] & SOCK_CLOEXEC) != 0;
    case SYS_pipe2:
    case SYS_timerfd_create:
    case SYS_eventfd2:
        return (a[1] & O_CLOEXEC) != 0;
    case SYS_memfd_create:
        return (a[1] & 1 /* MFD_CLOEXEC */) != 0;
    case SYS_epoll_create1:
    case SYS_inotify_init1:
        return (a[0] & O_CLOEXEC) != 0;
    case SYS_signalfd4:
        return (a[3] & O_CLOEXEC) != 0;
    case SYS_fcntl:
        return a[1] == F_DUPFD_CLOEXEC;
    default:
        return false;
    }
}

void raise_pair(int *pair, bool close_on_exec)
{
    pair[0] = static_cast<int>(raise(pair[0], close_on_exec));
    pair[1] = static_cast<int>(raise(pair[1], close_on_exec));
}

} // namespace

bool owns_descriptor(int descriptor)
{
    return in_table(descriptor) && __atomic_load_n(&ours[descriptor], __ATOMIC_RELAXED);
}

void note_inherited_descriptors()
{
    for (int fd = first; fd < highest; fd++) {
        if (owns_descriptor(fd))
            inherited[fd] = what_is(fd);
    }
}

bool inherits_descriptor(int descriptor)
{
    return owns_descriptor(descriptor) && inherited[descriptor] != 0 &&
           what_is(descriptor) == inherited[descriptor];
}

int descriptor_owner()
{
    return owner;
}

namespace descriptors {

bool begin(Refusal &why)
{
    struct rlimit limit;
    sys::call(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit);
    const int top = limit.rlim_cur < highest ? static_cast<int>(limit.rlim_cur) : highest;
    if (top < 64)
        return refuse(why,
                      "the limit of %d open files leaves no room for the MPI library; raise it "
                      "with ulimit -n",
                      top);
    owner = static_cast<int>(sys::call(SYS_getpid));
    first = top - (top / 4 < wished_room ? top / 4 : wished_room);
    return true;
}

long made(long result, const long *a, long number)
{
    const bool close_on_exec = asks_close_on_exec(number, a);
    switch (number) {
    case SYS_fcntl:
        if (a[1] != F_DUPFD && a[1] != F_DUPFD_CLOEXEC)
            return result;
        break;
    case SYS_pipe:
    case SYS_pipe2:
        raise_pair(reinterpret_cast<int *>(a[0]), close_on_exec);
        return result;
    case SYS_socketpair:
        raise_pair(reinterpret_cast<int *>(a[3]), close_on_exec);
        return result;
    case SYS_signalfd4:
        if (a[0] >= 0)
            return result; // changes the mask of an existing descriptor
        break;
    case SYS_open:
    case SYS_openat:
    case SYS_creat:
    case SYS_socket:
    case SYS_accept:
    case SYS_accept4:
    case SYS_dup:
    case SYS_epoll_create:
    case SYS_epoll_create1:
    case SYS_eventfd:
    case SYS_eventfd2:
    case SYS_memfd_create:
    case SYS_timerfd_create:
    case SYS_inotify_init1:
        break;
    default:
        return result; // does not create descriptors
    }
    return raise(result, close_on_exec);
}

long closed(const long *a)
{
    if (in_table(a[0]))
        set_ours(a[0], false);
    return sys::call(SYS_close, a[0]);
}

long copied(long number, const long *a)
{
    const long result = sys::call(number, a[0], a[1], a[2]);
    if (in_table(result) && result >= first)
        set_ours(result, true);
    return result;
}

int take(int fd)
{
    return static_cast<int>(raise(fd, true));
}

void close_all()
{
    for (int fd = first; fd < highest; fd++) {
        if (__atomic_exchange_n(&ours[fd], false, __ATOMIC_RELAXED))
            sys::call(SYS_close, fd);
    }
}

void forget()
{
    for (int fd = 0; fd < highest; fd++)
        set_ours(fd, false);
}

} // namespace descriptors

} // namespace cryo::capsule
