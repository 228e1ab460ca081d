// SPDX-License-Identifier: Apache-2.0
// The parts of the process that are Cryo's: descriptors that are in no image, handles of requests
// that reappear in the restored copy, and libraries that are saved whole.
#include "agent/agent.hpp"
#include "agent/room.hpp"
#include "sys/raw.hpp"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>

namespace cryo::agent {

namespace {

constexpr int max_own = 61; // plus the listener, its door, and a connection

struct Entry {
    std::atomic<int32_t> fd = 0; // number + 1, 0: free
    uint64_t inode = 0;
    OwnFdKind kind = OwnFdKind::other;
};

constinit Entry entries[max_own];
constinit std::atomic<uint64_t> libraries[4];

uint64_t inode_of(int fd)
{
    struct stat status = {};
    return sys::failed(sys::call(SYS_fstat, fd, &status)) ? 0 : status.st_ino;
}

// The program may have closed our descriptor and reused its number.
bool is_ours(const Entry &entry)
{
    return entry.fd.load() != 0 && inode_of(entry.fd.load() - 1) == entry.inode;
}

} // namespace

void fill_own_facts(OwnFacts &facts, int connection)
{
    int n = 0;
    facts.fds[n++] = state.listener;
    facts.fds[n++] = state.door;
    facts.fds[n++] = connection;
    for (const Entry &entry : entries)
        facts.fds[n++] = is_ours(entry) ? entry.fd.load() - 1 : -1;
    static_assert(sizeof(facts.fds) == (max_own + 3) * sizeof(int32_t));
    for (int i = 0; i < 4; i++)
        facts.libraries[i] = libraries[i].load();
}

void own_library(const void *inside)
{
    for (std::atomic<uint64_t> &library : libraries) {
        uint64_t none = 0;
        if (library.compare_exchange_strong(none, reinterpret_cast<uint64_t>(inside)))
            return;
    }
}

int own_fd(int fd, OwnFdKind kind)
{
    for (Entry &entry : entries) {
        if (entry.fd.load() != 0 && entry.fd.load() != fd + 1 && is_ours(entry))
            continue;
        entry.fd.store(0);
        entry.inode = inode_of(fd);
        entry.kind = kind;
        entry.fd.store(fd + 1);
        return 0;
    }
    return -EMFILE;
}

void disown_fd(int fd)
{
    for (Entry &entry : entries) {
        if (entry.fd.load() == fd + 1)
            entry.fd.store(0);
    }
}

namespace {

// The new descriptor for the restored copy; negative: the old one stays closed.
long renewed(OwnFdKind kind)
{
    if (kind == OwnFdKind::destination)
        return sys::call(SYS_openat, AT_FDCWD, "/dev/null", O_WRONLY | O_CLOEXEC);
    if (kind != OwnFdKind::handle)
        return -EBADF;
    // A pipe without writers is ready at once, and stays so.
    int ends[2] = {-1, -1};
    const long made = sys::call(SYS_pipe2, ends, O_CLOEXEC | O_NONBLOCK);
    if (sys::failed(made))
        return made;
    sys::call(SYS_close, ends[1]);
    return ends[0];
}

} // namespace

void renew_handles()
{
    for (Entry &entry : entries) {
        const int number = entry.fd.load() - 1;
        if (number < 0)
            continue;
        const long fd = with_room([&entry] { return renewed(entry.kind); });
        if (fd != number && !sys::failed(fd)) {
            sys::call(SYS_dup3, fd, number, O_CLOEXEC);
            sys::call(SYS_close, fd);
        }
        if (sys::failed(fd) || entry.kind != OwnFdKind::handle)
            entry.fd.store(0);
        else
            entry.inode = inode_of(number);
    }
}

} // namespace cryo::agent
