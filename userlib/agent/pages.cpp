// SPDX-License-Identifier: Apache-2.0
// Serves pages from a frozen copy of the program, so that the program itself continues, or from the
// stopped program. The pages move by reference (vmsplice) or through the kernel module: nothing is
// copied here, and a copy never unshares the pages that it sends.
#include "agent/agent.hpp"
#include "agent/room.hpp"
#include "protocol/decode.hpp"
#include "sys/page.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <linux/cryo.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

namespace cryo::agent {

namespace {

struct Copy {
    Channel channel;
    long pid;
};

// The intermediate shares our memory and uses this stack; the copy has its own copy of it.
alignas(16) char stack[16384];

// Closes all descriptors but those of the channel.
void keep_only(const Channel &channel)
{
    for (long from = 0;;) {
        long next = -1; // the lowest one to keep, at or above `from`
        for (const long fd : {channel.commands, channel.pipe, channel.device}) {
            if (fd >= from && (next < 0 || fd < next))
                next = fd;
        }
        if (next < 0) {
            sys::call(SYS_close_range, from, ~0U, 0);
            return;
        }
        if (next > from)
            sys::call(SYS_close_range, from, next - 1, 0);
        from = next + 1;
    }
}

// The checkpointer's instructions for the pages that it requests.
struct Wish {
    bool zeros_for_missing; // beyond the end of their file
    int protection;         // of the mapping; −1: unknown
};

alignas(sys::page_size) char bounce[65536];

// Whether to try again: at once, or after waiting for room in the pipe. If the program itself
// writes, the pipe never blocks, as nothing else would notice that its reader is silent.
bool tries_again(const Channel &to, long &result)
{
    if (result == -EINTR)
        return true;
    if (result != -EAGAIN || !to.is_limited)
        return false;
    result = await_room(to.pipe);
    return result > 0;
}

long send_bounced(const Channel &to, uint64_t size)
{
    for (uint64_t at = 0; at < size;) {
        long n = sys::call(SYS_write, to.pipe, bounce + at, size - at);
        if (tries_again(to, n))
            continue;
        if (n <= 0)
            return n == 0 ? -EPIPE : n;
        at += static_cast<uint64_t>(n);
    }
    return 0;
}

// Makes unreadable memory readable for a moment. No other thread runs meanwhile.
long send_opened(const Channel &to, uint64_t address, uint64_t length, int protection)
{
    constexpr uint64_t within = sys::page_size - 1;
    const uint64_t start = address & ~within;
    const uint64_t size = ((address + length + within) & ~within) - start;
    const long opened = sys::call(SYS_mprotect, start, size, PROT_READ);
    if (sys::failed(opened))
        return opened;
    long n;
    do {
        n = sys::call(SYS_write, to.pipe, address, length);
    } while (tries_again(to, n));
    const long closed = sys::call(SYS_mprotect, start, size, protection);
    return sys::failed(closed) ? closed : n;
}

// Memory that has contents but that the program itself may not read (PROT_NONE). Some kernels allow
// reading it through /proc/self/mem.
long send_hidden(const Channel &to, uint64_t address, uint64_t length, const Wish &wish)
{
    const long memory = with_room(
        [] { return sys::call(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC); });
    if (sys::failed(memory))
        return memory;
    const bool may_open = wish.protection >= 0 && (wish.protection & PROT_READ) == 0;
    long result = 0;
    while (length > 0 && !sys::failed(result)) {
        uint64_t part = length < sizeof(bounce) ? length : sizeof(bounce);
        long n = sys::call(SYS_pread64, memory, bounce, part, address);
        if (n > 0) {
            part = static_cast<uint64_t>(n);
            result = send_bounced(to, part);
        } else if (may_open && (n = send_opened(to, address, part, wish.protection)) != -EFAULT) {
            result = n;
            part = n > 0 ? static_cast<uint64_t>(n) : part;
        } else if (wish.zeros_for_missing) {
            part = part < sys::page_size ? part : sys::page_size;
            for (uint64_t i = 0; i < part; i++)
                bounce[i] = 0;
            result = send_bounced(to, part);
        } else {
            result = n == 0 ? -EIO : n;
        }
        address += part;
        length -= part;
    }
    sys::call(SYS_close, memory);
    return sys::failed(result) ? result : 0;
}

// Moves pages into the pipe by reference. If is_limited, the call must not block. Containers may
// forbid this call; then the pages are copied.
long splice_pages(const Channel &to, uint64_t address, uint64_t length)
{
    iovec part = {reinterpret_cast<void *>(address), length};
    const long moved =
        sys::call(SYS_vmsplice, to.pipe, &part, 1, to.is_limited ? SPLICE_F_NONBLOCK : 0);
    return moved == -EPERM || moved == -ENOSYS ? sys::call(SYS_write, to.pipe, address, length)
                                               : moved;
}

// By the kernel module. Returns the number of bytes moved, or −errno.
long dump_pages(int device, int pipe, uint64_t address, uint64_t length)
{
    cryo_range range = {address, address + length};
    cryo_dump dump = {};
    dump.size = sizeof(dump);
    dump.ranges = reinterpret_cast<uint64_t>(&range);
    dump.nr_ranges = 1;
    dump.fd = pipe;
    while (dump.done < length) {
        const uint64_t before = dump.done;
        const long result = sys::call(SYS_ioctl, device, CRYO_IOC_DUMP, &dump);
        if (result == -EINTR)
            continue;
        if (sys::failed(result))
            return before > 0 ? static_cast<long>(before) : result;
    }
    return static_cast<long>(length);
}

long send_all(const Channel &to, uint64_t address, uint64_t length, const Wish &wish)
{
    while (length > 0) {
        // The module moves whole pages; after a partial page, the rest goes by splice.
        const bool whole = (address | length) % sys::page_size == 0;
        const bool by_module = to.device >= 0 && whole;
        long n = by_module ? dump_pages(to.device, to.pipe, address, length)
                           : splice_pages(to, address, length);
        if (by_module && n == -EPERM) // under a filter of the program's own, the module moves none
            n = splice_pages(to, address, length);
        if (tries_again(to, n))
            continue;
        if (n == -EFAULT)
            return send_hidden(to, address, length, wish);
        if (n <= 0)
            return n == 0 ? -EPIPE : n;
        address += static_cast<uint64_t>(n);
        length -= static_cast<uint64_t>(n);
    }
    return 0;
}

// The result goes through the bounce buffer. It is written first, so that its soft-dirty bits are
// set before the scan: else a changed page of it could pass for unchanged.
bool send_scan(const Channel &to, const ScanRequest &request)
{
    constexpr size_t size = scanned_at_once * sizeof(cryo_run);
    static_assert(size <= sizeof(bounce));
    for (size_t at = 0; at < size; at += sys::page_size)
        static_cast<volatile char *>(bounce)[at] = 0;
    cryo_scan scan = {};
    scan.size = sizeof(scan);
    scan.start = request.start.number();
    scan.end = request.end.number();
    scan.runs = reinterpret_cast<uint64_t>(bounce);
    scan.max_runs = scanned_at_once;
    scan.want = CRYO_PAGE_SOFT_DIRTY;
    long result;
    do {
        result = sys::call(SYS_ioctl, to.device, CRYO_IOC_SCAN, &scan);
    } while (result == -EINTR);
    const Reply answer = {protocol_magic, protocol_version, Op::scan,
                          result,         scan.next,        scan.nr_runs};
    const long sent = send_packet(to.commands, &answer, sizeof(answer));
    if (sys::failed(sent) || sys::failed(result))
        return !sys::failed(sent);
    return !sys::failed(send_packet(to.commands, bounce, scan.nr_runs * sizeof(cryo_run)));
}

// Answers those that request pages, until there is an outcome.
struct PageServer {
    const Channel &channel;
    bool is_over = false;
    long outcome = 0;

    void answer(const PagesRequest &request)
    {
        const Wish wish = {(request.flags & PagesRequest::zeros_for_missing) != 0,
                           request.protection};
        const long sent = send_all(channel, request.start.number(), request.length, wish);
        if (sys::failed(sent))
            fail(Op::pages, sent);
    }
    void answer(const ScanRequest &request)
    {
        if (!send_scan(channel, request))
            end(-EPIPE);
    }
    void answer(const EndRequest &) { end(0); }
    void fail(Op op, long why)
    {
        const Reply bad = {protocol_magic, protocol_version, op, why, 0, 0};
        send_packet(channel.commands, &bad, sizeof(bad));
        end(why);
    }
    void end(long how)
    {
        is_over = true;
        outcome = how;
    }
};

// Runs in a child that shares our memory, and makes the real copy: the copy's parent ends at once,
// so the program never gets to wait for a child it does not know.
void make_copy(void *argument)
{
    auto *copy = static_cast<Copy *>(argument);
    const Channel channel = copy->channel;
    const long pid = sys::call(SYS_clone, 0, 0, 0, 0, 0);
    if (pid != 0) {
        copy->pid = pid;
        return;
    }
    keep_only(channel);
    sys::call(SYS_prctl, PR_SET_NAME, copy_name, 0, 0, 0); // not mistaken for the program
    const Reply ready = {protocol_magic, protocol_version, Op::fork, 0, 0, 0};
    send_packet(channel.commands, &ready, sizeof(ready));
    const long result = serve_pages(channel);
    sys::call(SYS_exit_group, sys::failed(result) ? 1 : 0);
}

} // namespace

long serve_pages(const Channel &channel)
{
    PageServer server = {channel};
    while (!server.is_over) {
        Incoming in;
        const long n = receive_packet(channel.commands, &in, sizeof(in), MSG_TRUNC);
        if (n == -ETIME)
            return n;
        if (!is_request(in, n))
            return -EPIPE; // the checkpointer is gone
        const long refused = Requests<PagesRequest, ScanRequest, EndRequest>::decode(in, n, server);
        if (refused != 0)
            server.fail(in.head.op, refused);
    }
    return server.outcome;
}

// If the checkpointer dies, writing to its pipe raises SIGPIPE in this thread, which would end
// the program as soon as the handler returns. Consumes the signal, unless one was pending
// before.
long serve_own_pages(const Channel &whole)
{
    Channel channel = whole;
    channel.is_limited = true;
    limit_silence(channel.commands, line.limit_ms);
    const long flags = sys::call(SYS_fcntl, channel.pipe, F_GETFL);
    sys::call(SYS_fcntl, channel.pipe, F_SETFL, flags | O_NONBLOCK);
    constexpr uint64_t sigpipe = 1ULL << (SIGPIPE - 1);
    uint64_t before = 0;
    sys::call(SYS_rt_sigpending, &before, sizeof(before));
    const long result = serve_pages(channel);
    if (sys::failed(result) && (before & sigpipe) == 0) {
        const timespec at_once = {};
        sys::call(SYS_rt_sigtimedwait, &sigpipe, nullptr, &at_once, sizeof(sigpipe));
    }
    return result;
}

// The intermediate lives only for the time of a fork. If it has been stopped, it must not hold up
// the program.
void await_intermediate(long pid)
{
    const long handle = sys::call(SYS_pidfd_open, pid, 0);
    pollfd ended = {static_cast<int>(handle), POLLIN, 0};
    long ready = 1;
    if (!sys::failed(handle)) {
        while ((ready = sys::call(SYS_poll, &ended, 1, static_cast<long>(line.limit_ms))) == -EINTR)
            ;
        sys::call(SYS_close, handle);
    }
    if (ready == 0)
        sys::call(SYS_kill, pid, SIGKILL);
    long reaped;
    do {
        reaped = sys::call(SYS_wait4, pid, nullptr, __WALL, nullptr);
    } while (reaped == -EINTR);
}

long fork_copy(const Channel &channel)
{
    Copy copy = {channel, -EAGAIN};
    const long helper = cryo_clone(CLONE_VM, stack + sizeof(stack), make_copy, &copy);
    if (sys::failed(helper))
        return helper;
    await_intermediate(helper);
    return copy.pid;
}

} // namespace cryo::agent
