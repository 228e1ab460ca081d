// SPDX-License-Identifier: Apache-2.0
#include "agent/kept_numbers.hpp"

#include "agent/sharers.hpp"
#include "protocol/door.hpp"
#include "sys/raw.hpp"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <initializer_list>
#include <sys/stat.h>

namespace cryo::agent {

namespace {

constexpr int most_kept = 16; // three are needed, and twice as many while they move

// The flags belong to the open file: they tell those of the agent from others of the same file.
struct Identity {
    long flags = -EBADF;
    uint64_t device = 0;
    uint64_t inode = 0;
};

struct Kept {
    std::atomic<int32_t> number = 0; // and 1; 0: free, −1: just being written
    Identity file;
};

constinit Kept all[most_kept];

Identity identity_of(long fd)
{
    Identity file;
    struct stat status = {};
    file.flags = sys::call(SYS_fcntl, fd, F_GETFL);
    if (sys::failed(file.flags) || sys::failed(sys::call(SYS_fstat, fd, &status)))
        return {};
    file.device = status.st_dev;
    file.inode = status.st_ino;
    return file;
}

bool is_same(const Identity &one, const Identity &other)
{
    return !sys::failed(one.flags) && one.flags == other.flags && one.device == other.device &&
           one.inode == other.inode;
}

bool is_there(const Kept &one)
{
    const int32_t number = one.number.load();
    return number > 0 && is_same(identity_of(number - 1), one.file);
}

void note(long fd)
{
    for (Kept &one : all) {
        int32_t none = 0;
        if (!one.number.compare_exchange_strong(none, -1))
            continue;
        one.file = identity_of(fd);
        one.number.store(static_cast<int32_t>(fd) + 1);
        return;
    }
}

void forget(long fd)
{
    for (Kept &one : all) {
        int32_t number = static_cast<int32_t>(fd) + 1;
        one.number.compare_exchange_strong(number, 0);
    }
}

// Above the door, where programs have nothing.
long copy_above(long fd)
{
    long high = -EINVAL;
    for (const int floor : {door_fd + 2, low_door_fd + 2}) {
        if (sys::failed(high)) // with the second number if RLIMIT_NOFILE is low
            high = sys::call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, floor);
    }
    return high;
}

} // namespace

// A thread that had begun to close the number before it was noted may do so at any time until the
// end, or put another file in its place.
long keep(long fd, bool (*is_ours)(int fd))
{
    if (sys::failed(fd))
        return fd;
    note(fd);
    const long high = copy_above(fd);
    if (sys::failed(high)) {
        if (is_ours(static_cast<int>(fd)))
            return fd;
        forget(fd);
        return -EBADF;
    }
    note(high);
    const bool is_copied = is_same(identity_of(fd), identity_of(high));
    if (is_ours(static_cast<int>(high))) {
        if (is_copied)
            sys::call(SYS_close, fd);
        forget(fd);
        return high;
    }
    const bool is_lost = !is_ours(static_cast<int>(fd));
    if (is_lost && is_copied)
        sys::call(SYS_close, high); // of what has taken its place
    forget(high);
    if (!is_lost)
        return fd;
    forget(fd);
    return -EBADF;
}

bool is_kept(long fd)
{
    for (const Kept &one : all) {
        if (fd >= 0 && one.number.load() == fd + 1)
            return is_there(one);
    }
    return false;
}

void give_up(long fd)
{
    if (is_kept(fd))
        sys::call(SYS_close, fd);
    forget(fd);
}

long lowest_kept(unsigned first, unsigned last)
{
    long lowest = -1;
    for (const Kept &one : all) {
        const int32_t number = one.number.load(std::memory_order_relaxed);
        if (number <= 0 || static_cast<unsigned>(number) - 1 < first ||
            static_cast<unsigned>(number) - 1 > last || (lowest >= 0 && number - 1 >= lowest))
            continue;
        if (is_there(one) && has_our_descriptors())
            lowest = number - 1;
    }
    return lowest;
}

void forget_kept()
{
    for (Kept &one : all)
        one.number.store(0);
}

} // namespace cryo::agent
