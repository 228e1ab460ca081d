// SPDX-License-Identifier: Apache-2.0
// Paths of inotify watches. The kernel does not report them, so the interposed inotify_add_watch(),
// which is not a hot call, records them (preload.cpp). The checkpointer matches them against the
// watches that exist. The end of a watch is not seen: whenever the number of entries has doubled,
// those go whose path leads nowhere any more, so a program that watches ever new files that do not
// stay does not grow.
#include "agent/agent.hpp"
#include "agent/room.hpp"
#include "agent/undisturbed.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

namespace cryo::agent {

namespace {

struct Watched {
    Watched *next;
    WatchedPath head;
    char path[];
};

constexpr uint32_t buckets = 256;
constexpr size_t chunk_size = 65536;
constexpr size_t unit = 16; // entries are multiples of it
constexpr uint32_t first_look = 1024;

Watched *watched[buckets];
uint32_t count;
uint32_t next_look = first_look;                          // at this count
Watched *unused[(sizeof(Watched) + PATH_MAX) / unit + 2]; // by size
char *chunk;
size_t chunk_left;
std::atomic<uint32_t> lock;

// No thread parks inside, so the list is always consistent.
class Inside
{
  public:
    Inside()
    {
        uint32_t free = 0;
        while (!lock.compare_exchange_weak(free, 1, std::memory_order_acquire)) {
            free = 0;
            sys::call(SYS_sched_yield);
        }
    }
    ~Inside() { lock.store(0, std::memory_order_release); }
    Inside(const Inside &) = delete;
    Inside &operator=(const Inside &) = delete;

  private:
    const Undisturbed undisturbed_;
};

void *allocate(size_t size)
{
    if (size > chunk_left) {
        const long at = sys::call(SYS_mmap, nullptr, chunk_size, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (sys::failed(at))
            return nullptr;
        chunk = reinterpret_cast<char *>(at);
        chunk_left = chunk_size;
    }
    void *got = chunk;
    chunk += size;
    chunk_left -= size;
    return got;
}

bool same(const char *a, const char *b, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++) {
        if (a[i] != b[i])
            return false;
    }
    return true;
}

size_t units_of(uint32_t length)
{
    return (sizeof(Watched) + length + 1 + unit - 1) / unit;
}

Watched *new_entry(uint32_t length)
{
    const size_t units = units_of(length);
    Watched *again = unused[units];
    if (again == nullptr)
        return static_cast<Watched *>(allocate(units * unit));
    unused[units] = again->next;
    return again;
}

void drop_lost()
{
    for (Watched *&first : watched) {
        for (Watched **link = &first; *link != nullptr;) {
            Watched *w = *link;
            struct stat status = {};
            const long found = sys::call(SYS_lstat, w->path, &status);
            if (found != -ENOENT && found != -ENOTDIR) {
                link = &w->next;
                continue;
            }
            count--;
            *link = w->next;
            Watched *&others = unused[units_of(w->head.length)];
            w->next = others;
            others = w;
        }
    }
    next_look = count < first_look / 2 ? first_look : count * 2;
}

void write_down(const struct stat &status, const char *path, uint32_t length)
{
    uint32_t hash = 2166136261U;
    for (uint32_t i = 0; i < length; i++)
        hash = (hash ^ static_cast<unsigned char>(path[i])) * 16777619U;
    const Inside inside;
    Watched *&first = watched[hash % buckets];
    for (Watched *w = first; w != nullptr; w = w->next) {
        if (w->head.length == length && same(w->path, path, length)) {
            w->head.inode = status.st_ino;
            w->head.device = status.st_dev;
            return;
        }
    }
    if (count >= next_look)
        drop_lost();
    Watched *w = new_entry(length);
    if (w == nullptr)
        return; // the checkpoint will refuse the watch
    w->head = {status.st_ino, status.st_dev, length, 0};
    memcpy(w->path, path, length);
    w->path[length] = 0;
    w->next = first;
    first = w;
    count++;
}

} // namespace

void remember_watch(const char *path, uint32_t mask)
{
    const int no_follow = (mask & IN_DONT_FOLLOW) != 0 ? O_NOFOLLOW : 0;
    const long fd = with_room(
        [&] { return sys::call(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC | no_follow); });
    if (sys::failed(fd))
        return;
    char name[32] = "/proc/self/fd/";
    char *end = name + 14;
    char digits[12];
    int n = 0;
    for (long rest = fd; n == 0 || rest != 0; rest /= 10)
        digits[n++] = static_cast<char>('0' + rest % 10);
    while (n > 0)
        *end++ = digits[--n];
    *end = 0;
    char whole[PATH_MAX];
    struct stat status = {};
    const long length = sys::call(SYS_readlinkat, AT_FDCWD, name, whole, sizeof(whole));
    if (!sys::failed(length) && !sys::failed(sys::call(SYS_fstat, fd, &status)))
        write_down(status, whole, static_cast<uint32_t>(length));
    sys::call(SYS_close, fd);
}

void forget_watch_lock()
{
    lock.store(0);
}

bool send_watches(int connection)
{
    const Reply answer = {protocol_magic, protocol_version, Op::watches, 0, 0, count};
    long sent = send_packet(connection, &answer, sizeof(answer));
    for (const Watched *w : watched) {
        for (; w != nullptr && !sys::failed(sent); w = w->next) {
            iovec parts[2] = {{const_cast<WatchedPath *>(&w->head), sizeof(w->head)},
                              {const_cast<char *>(w->path), w->head.length}};
            msghdr message = {};
            message.msg_iov = parts;
            message.msg_iovlen = 2;
            sent = send_message(connection, &message);
        }
    }
    return !sys::failed(sent);
}

} // namespace cryo::agent
