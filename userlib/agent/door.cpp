// SPDX-License-Identifier: Apache-2.0
// The "door" by which checkpointers connect: a socket file that only its user may connect to, made
// in a directory where no other user can replace it, and unlinked at once. What remains is a
// descriptor, so a peer connects by way of /proc/PID/fd/NUMBER. There is no name that another user
// could take first, and nothing is left behind; the kernel admits those that it lets inspect the
// process, and nobody else can connect.
#include "protocol/door.hpp"

#include "agent/callbacks.hpp"
#include "agent/room.hpp"
#include "sys/overflow_uid.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace cryo::agent {

namespace {

// Above the numbers that programs use, yet small enough not to grow the kernel's table.
constexpr int high_numbers[] = {door_fd, low_door_fd};

constexpr size_t random_bytes = 8;
constexpr size_t longest_number = sizeof("4194304") - 1;
constexpr size_t longest_directory = sizeof(sockaddr_un::sun_path) - sizeof("/") -
                                     sizeof(door_name) - longest_number - sizeof(".") -
                                     2 * random_bytes;

char runtime_directory[longest_directory]; // empty: there is none

bool is_shorter(const char *text, size_t than)
{
    for (size_t length = 0; length < than; length++) {
        if (text[length] == 0)
            return true;
    }
    return false;
}

char *put(char *to, const char *text)
{
    while (*text != 0)
        *to++ = *text++;
    return to;
}

char *put(char *to, unsigned long n)
{
    char digits[24];
    int count = 0;
    do {
        digits[count++] = static_cast<char>('0' + n % 10);
        n /= 10;
    } while (n != 0);
    while (count > 0)
        *to++ = digits[--count];
    return to;
}

// Connecting requires write permission.
constexpr unsigned for_its_user = S_IRUSR | S_IWUSR;

// Only this user can put a socket in there; or all may, but only an entry's owner can remove it.
bool is_safe(const char *directory, bool is_private)
{
    struct stat status = {};
    if (sys::failed(sys::call(SYS_stat, directory, &status)) || !S_ISDIR(status.st_mode))
        return false;
    const bool is_ours = status.st_uid == static_cast<uid_t>(sys::call(SYS_geteuid));
    if (is_private)
        return is_ours && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
    // Root's directories look like this in a user namespace without root. If one really is nobody's
    // and the socket is replaced, the checkpointer sees it by the listener's credentials.
    return (is_ours || status.st_uid == 0 || status.st_uid == sys::overflow_uid()) &&
           ((status.st_mode & (S_IWGRP | S_IWOTH)) == 0 || (status.st_mode & S_ISVTX) != 0);
}

void make_path(const char *directory, char *path)
{
    unsigned char random[random_bytes] = {};
    sys::call(SYS_getrandom, random, sizeof(random), GRND_NONBLOCK);
    char *end = put(put(put(path, directory), "/"), door_name);
    end = put(put(end, static_cast<unsigned long>(sys::call(SYS_getpid))), ".");
    for (const unsigned char byte : random) {
        *end++ = "0123456789abcdef"[byte >> 4];
        *end++ = "0123456789abcdef"[byte & 15];
    }
    *end = 0;
}

// Returns a descriptor of the file that the socket is bound to, already unlinked.
long bind_in(const char *directory, int socket)
{
    constexpr int most_tries = 8; // if names are taken
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    long bound = -EADDRINUSE;
    for (int i = 0; i < most_tries && bound == -EADDRINUSE; i++) {
        make_path(directory, address.sun_path);
        bound = sys::call(SYS_bind, socket, &address, sizeof(address));
    }
    if (sys::failed(bound))
        return bound;
    const long door =
        sys::call(SYS_openat, AT_FDCWD, address.sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat status = {};
    // The umask may have removed permissions.
    if (!sys::failed(door) && !sys::failed(sys::call(SYS_fstat, door, &status)) &&
        (status.st_mode & for_its_user) != for_its_user)
        sys::call(SYS_chmod, address.sun_path, for_its_user);
    sys::call(SYS_unlink, address.sun_path);
    return door;
}

long bind_somewhere(int socket)
{
    // A file that bind(2) makes has the mode of the socket, without what the umask takes away.
    sys::call(SYS_fchmod, socket, for_its_user);
    long door = -ENOENT;
    if (runtime_directory[0] != 0 && is_safe(runtime_directory, true))
        door = bind_in(runtime_directory, socket);
    for (const char *shared : {"/dev/shm", "/tmp", "/var/tmp"}) {
        if (sys::failed(door) && is_safe(shared, false))
            door = bind_in(shared, socket);
    }
    return door;
}

int move_up(long fd)
{
    long high = -EINVAL;
    for (const int floor : high_numbers) {
        if (sys::failed(high)) // retried with the second number if RLIMIT_NOFILE is low
            high = sys::call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, floor);
    }
    if (sys::failed(high))
        return static_cast<int>(fd);
    sys::call(SYS_close, fd);
    return static_cast<int>(high);
}

uint64_t inode_of(int fd)
{
    struct stat status = {};
    return sys::failed(sys::call(SYS_fstat, fd, &status)) ? 0 : status.st_ino;
}

} // namespace

void remember_runtime_directory(const char *directory)
{
    if (directory == nullptr || *directory != '/' || !is_shorter(directory, longest_directory))
        return;
    *put(runtime_directory, directory) = 0;
}

namespace {

bool signal_is_told;  // the signal is not the usual one, so every new door tells it
int filters;          // of the surroundings
int passing_process;  // the process that has system calls passed to itself; 0: none
int confined_process; // the process that is under rules of its own; 0: none

struct DoorPath {
    char text[32];
    DoorPath() { *put(put(text, "/proc/self/fd/"), static_cast<unsigned long>(state.door)) = 0; }
};

bool passes_calls()
{
    return state.pid != 0 && __atomic_load_n(&passing_process, __ATOMIC_RELAXED) == state.pid;
}

// The program may have closed the door and reused its number.
void tell_mode_at_door()
{
    const unsigned mode =
        (passes_calls() ? no_knocking : for_its_user) | (is_confined() ? confined_inside : 0U);
    if (inode_of(state.door) == state.door_inode)
        sys::call(SYS_chmod, DoorPath().text, mode);
}

long open_where_there_is_room()
{
    const long socket =
        sys::call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sys::failed(socket))
        return socket;
    const long bound = bind_somewhere(static_cast<int>(socket));
    if (sys::failed(bound)) {
        sys::call(SYS_close, socket);
        return bound;
    }
    const int door = move_up(bound);
    const int listener = move_up(socket);
    f_owner_ex owner = {F_OWNER_PID, static_cast<int>(sys::call(SYS_getpid))};
    long result = sys::call(SYS_fcntl, listener, F_SETSIG, state.signal);
    if (!sys::failed(result))
        result = sys::call(SYS_fcntl, listener, F_SETOWN_EX, &owner);
    if (!sys::failed(result))
        result = sys::call(SYS_fcntl, listener, F_SETFL, O_RDWR | O_NONBLOCK | O_ASYNC);
    if (!sys::failed(result))
        result = sys::call(SYS_listen, listener, 4);
    if (sys::failed(result)) {
        sys::call(SYS_close, listener);
        sys::call(SYS_close, door);
        return result;
    }
    if (confined_process != 0 && confined_process == state.pid)
        confined_process = owner.pid; // a child inherits the rules
    state.listener = listener;
    state.door = door;
    state.pid = owner.pid;
    state.listener_inode = inode_of(listener);
    state.door_inode = inode_of(door);
    return 0;
}

} // namespace

long open_control()
{
    const long opened = with_room(open_where_there_is_room);
    if (signal_is_told && !sys::failed(opened))
        tell_signal_at_door();
    if ((passes_calls() || is_confined()) && !sys::failed(opened))
        tell_mode_at_door();
    return opened;
}

bool begin_passing_calls()
{
    if (passes_calls()) // then calls of our own may be passed to the program already
        return false;
    const auto pid = static_cast<int>(sys::call(SYS_getpid));
    if (pid != state.pid || __atomic_exchange_n(&passing_process, pid, __ATOMIC_RELAXED) == pid)
        return false;
    tell_mode_at_door();
    return true;
}

void withdraw_passing_calls()
{
    __atomic_store_n(&passing_process, 0, __ATOMIC_RELAXED);
    tell_mode_at_door();
}

// May be called in a child of vfork, which has the variables of its parent, but not its rules.
void know_confined()
{
    const auto pid = static_cast<int>(sys::call(SYS_getpid));
    if (state.pid != 0 && __atomic_load_n(&confined_process, __ATOMIC_RELAXED) == state.pid)
        return;
    __atomic_store_n(&confined_process, pid, __ATOMIC_RELAXED);
    if (pid == state.pid)
        tell_mode_at_door();
}

bool is_confined()
{
    const int process = __atomic_load_n(&confined_process, __ATOMIC_RELAXED);
    return process != 0 && (process == state.pid || process == sys::call(SYS_getpid));
}

// Stored as the door's modification time.
void tell_signal_at_door()
{
    const timespec times[2] = {{0, UTIME_OMIT}, {state.signal + filters * door_filter, 0}};
    sys::call(SYS_utimensat, AT_FDCWD, DoorPath().text, times, 0);
    signal_is_told = true;
}

void know_filters(int count)
{
    filters = count > 0 && count <= most_door_filters ? count : 0;
    if (filters != 0)
        signal_is_told = true;
}

int known_filters()
{
    return filters;
}

bool may_end_by_a_look()
{
    return filters == 0 && !has(round.features, Feature::judged_filters) &&
           sys::call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0) != 0;
}

bool may_ask_for_settings()
{
    return has(round.features, Feature::judged_settings)
               ? !may_end_by_a_look()
               : sys::call(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0) == 0;
}

// The program may have closed our descriptors and reused their numbers.
void forget_control()
{
    if (inode_of(state.listener) == state.listener_inode)
        sys::call(SYS_close, state.listener);
    if (inode_of(state.door) == state.door_inode)
        sys::call(SYS_close, state.door);
}

} // namespace cryo::agent
