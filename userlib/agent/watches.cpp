// SPDX-License-Identifier: Apache-2.0
// Paths of inotify watches. The kernel does not report them, so the interposed inotify_add_watch(),
// which is not a hot call, records them (preload.cpp). Entries are never removed; the checkpointer
// matches them against the watches that exist.
#include "agent/agent.hpp"
#include "agent/room.hpp"
#include "sys/raw.hpp"

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

Watched *watched[buckets];
uint32_t count;
char *chunk;
size_t chunk_left;
std::atomic<uint32_t> lock;

// Blocks the checkpoint signal, so that no thread parks inside and the list is always consistent.
class Inside
{
  public:
    Inside()
    {
        const uint64_t all = ~uint64_t(0);
        sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, 8);
        uint32_t free = 0;
        while (!lock.compare_exchange_weak(free, 1, std::memory_order_acquire)) {
            free = 0;
            sys::call(SYS_sched_yield);
        }
    }
    ~Inside()
    {
        lock.store(0, std::memory_order_release);
        sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, 8);
    }
    Inside(const Inside &) = delete;
    Inside &operator=(const Inside &) = delete;

  private:
    uint64_t before_ = 0;
};

void *allocate(size_t size)
{
    size = (size + 15) & ~size_t(15);
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
    auto *w = static_cast<Watched *>(allocate(sizeof(Watched) + length));
    if (w == nullptr)
        return; // the checkpoint will refuse the watch
    w->head = {status.st_ino, status.st_dev, length, 0};
    memcpy(w->path, path, length);
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

bool send_watches(int connection, const Command &command)
{
    const Reply answer = {protocol_magic, protocol_version, command.op, 0, 0, count};
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
