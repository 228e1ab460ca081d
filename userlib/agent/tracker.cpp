// SPDX-License-Identifier: Apache-2.0
// A userfaultfd by which the kernel records which pages are written (WP_ASYNC: faults are resolved
// without a handler). Only the process that owns the memory can create it; everything else is left
// to the checkpointer, which gets the descriptor while the program is stopped.
//
// The token names what is tracked: all changes since the image with the same token. Before a
// checkpointer changes the tracking, it sets the token to zero or, if the program is still running,
// to another one that no image has. So its death leaves no wrong token.
//
// If the kernel has no WP_ASYNC, the checkpointer uses the soft-dirty bits, which other programs
// may clear, too. So one page here is written after each of our clearings, and is found clean after
// a foreign one. The page behind it is never written: if it is dirty, the kernel counts the whole
// mapping as changed, and the first page says nothing. Both lie in a file mapping, which is never
// merged with another one. The userfaultfd is idle: it marks the mappings that existed when it was
// registered.
#include "agent/agent.hpp"
#include "sys/page.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

namespace cryo::agent {

namespace {

// From Linux 5.11, 6.4 and 6.7, for older headers. The numbers are the kernel's ABI.
constexpr int user_mode_only = 1; // allowed to unprivileged users
constexpr uint64_t wp_unpopulated = 1 << 13;
constexpr uint64_t wp_async = 1 << 15;

constexpr int fd_floor = 960; // like the control socket's

struct Tracker {
    int32_t fd = 0; // number + 1, 0: none
    int32_t pid = 0;
    TrackerKind kind = TrackerKind::none;
    uint32_t notes = 0;
    uint64_t inode = 0;
};

constinit Tracker tracker;
// Volatile: a checkpointer may write to it from outside.
constinit volatile TrackerMark mark = {};
constexpr size_t page = sys::page_size;
alignas(page) constinit volatile unsigned char marks[2 * page] = {1}; // in .data: see above
alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];

uint64_t inode_of(int fd)
{
    struct stat status = {};
    return sys::failed(sys::call(SYS_fstat, fd, &status)) ? 0 : status.st_ino;
}

// The program may have closed the descriptor and reused its number.
bool is_there()
{
    return tracker.fd != 0 && tracker.pid == sys::call(SYS_getpid) &&
           inode_of(tracker.fd - 1) == tracker.inode;
}

void set_token(uint64_t low, uint64_t high)
{
    mark.token[0] = low;
    mark.token[1] = high;
    mark.changes = mark.changes + 1;
}

} // namespace

// Only the leader of a checkpoint calls this.
void count_read()
{
    mark.has_reads = reads_counted;
    mark.reads = mark.reads + 1;
}

// The count stays above zero in a child that was forked during another thread's call: nothing is
// copied early there.
MemoryWrite::MemoryWrite()
{
    mark.has_writes = writes_counted;
    __atomic_fetch_add(&mark.writes, 1, __ATOMIC_SEQ_CST);
}

MemoryWrite::~MemoryWrite()
{
    __atomic_fetch_sub(&mark.writes, 1, __ATOMIC_SEQ_CST);
}

namespace {

long make(TrackerKind kind)
{
    const long fd = sys::call(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | user_mode_only);
    if (sys::failed(fd))
        return fd;
    uffdio_api api = {};
    api.api = UFFD_API;
    api.features = kind == TrackerKind::write_protection ? wp_unpopulated | wp_async : 0;
    long result = sys::call(SYS_ioctl, fd, UFFDIO_API, &api);
    long high = -EMFILE;
    if (!sys::failed(result)) {
        high = sys::call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, fd_floor);
        if (sys::failed(high))
            high = sys::call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 100); // for a low RLIMIT_NOFILE
        result = high;
    }
    sys::call(SYS_close, fd);
    if (!sys::failed(result))
        result = own_fd(static_cast<int>(high), OwnFdKind::other);
    if (sys::failed(result)) {
        if (!sys::failed(high))
            sys::call(SYS_close, high);
        return result;
    }
    tracker.inode = inode_of(static_cast<int>(high));
    tracker.pid = static_cast<int32_t>(sys::call(SYS_getpid));
    tracker.fd = static_cast<int32_t>(high) + 1;
    tracker.kind = kind;
    return 0;
}

} // namespace

bool send_tracker(int connection, const TrackerRequest &request)
{
    if (!is_there())
        forget_tracker(false);
    const TrackerKind wanted = request.kind;
    if (wanted != TrackerKind::none && tracker.kind != wanted)
        forget_tracker(true);
    long result = 0;
    if (tracker.fd == 0 && wanted != TrackerKind::none)
        result = make(wanted);
    TrackerFacts facts = {};
    facts.token[0] = mark.token[0];
    facts.token[1] = mark.token[1];
    facts.has_fd = tracker.fd != 0 ? 1 : 0;
    facts.kind = tracker.kind;
    facts.marks = reinterpret_cast<uint64_t>(&marks);
    facts.notes = tracker.notes;
    if (tracker.kind == TrackerKind::write_protection)
        facts.mark = reinterpret_cast<uint64_t>(&mark);
    facts.changes = mark.changes;
    Reply answer = {protocol_magic, protocol_version, Op::tracker, result, 0, 1};
    iovec part = {&answer, sizeof(answer)};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (tracker.fd != 0) {
        auto *head = reinterpret_cast<cmsghdr *>(control);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        *reinterpret_cast<int *>(CMSG_DATA(head)) = tracker.fd - 1;
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
    }
    return !sys::failed(send_message(connection, &message)) &&
           send_packet(connection, &facts, sizeof(facts)) == static_cast<long>(sizeof(facts));
}

long set_watched(const WatchedRequest &request)
{
    tracker.notes |= request.notes;
    if (!is_there()) {
        forget_tracker(false);
        return -EBADF;
    }
    if ((request.flags & WatchedRequest::is_over) != 0) {
        forget_tracker(true);
        return 0;
    }
    set_token(request.token[0], request.token[1]);
    if (tracker.kind == TrackerKind::soft_dirty && (request.token[0] | request.token[1]) != 0)
        marks[0] = marks[0];
    return 0;
}

void forget_tracker(bool close_it)
{
    set_token(0, 0);
    if (tracker.fd == 0)
        return;
    const int fd = tracker.fd - 1;
    if (close_it && inode_of(fd) == tracker.inode)
        sys::call(SYS_close, fd);
    disown_fd(fd);
    tracker.fd = 0;
    tracker.kind = TrackerKind::none;
}

} // namespace cryo::agent
