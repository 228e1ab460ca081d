// SPDX-License-Identifier: Apache-2.0
// Serving pages: from a frozen copy of the program, so that the program itself goes on, or from
// the stopped program. The pages travel by reference (vmsplice), or by the kernel module: nothing
// is copied here, and a copy never unshares what it sends.
#include "agent/agent.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <linux/cryo.h>
#include <linux/sched.h>
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

// The intermediate shares our memory and has this stack; the copy has its own copy of it.
alignas(16) char stack[16384];

// Gives up all descriptors but those of the channel.
void keep_only(const Channel &channel)
{
    for (long from = 0;;) {
        long next = -1; // the lowest one to keep from here on
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

// What the checkpointer says about the pages it asks for.
struct Wish {
    bool zeros_for_missing; // behind the end of their file
    int protection;         // of the mapping; −1: not known
};

alignas(4096) char bounce[65536];

long send_bounced(int pipe, uint64_t size)
{
    for (uint64_t at = 0; at < size;) {
        const long n = sys::call(SYS_write, pipe, bounce + at, size - at);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? -EPIPE : n;
        at += static_cast<uint64_t>(n);
    }
    return 0;
}

// Memory that may not be read is made readable for a moment. Nobody runs meanwhile.
long send_opened(int pipe, uint64_t address, uint64_t length, int protection)
{
    const uint64_t start = address & ~uint64_t(4095);
    const uint64_t size = ((address + length + 4095) & ~uint64_t(4095)) - start;
    const long opened = sys::call(SYS_mprotect, start, size, PROT_READ);
    if (sys::failed(opened))
        return opened;
    long n;
    do {
        n = sys::call(SYS_write, pipe, address, length);
    } while (n == -EINTR);
    const long closed = sys::call(SYS_mprotect, start, size, protection);
    return sys::failed(closed) ? closed : n;
}

// Memory that the program itself may not read (PROT_NONE) but that has contents. Some kernels let
// /proc/self/mem read it.
long send_hidden(int pipe, uint64_t address, uint64_t length, const Wish &wish)
{
    const long memory = sys::call(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (sys::failed(memory))
        return memory;
    const bool may_open = wish.protection >= 0 && (wish.protection & PROT_READ) == 0;
    long result = 0;
    while (length > 0 && !sys::failed(result)) {
        uint64_t part = length < sizeof(bounce) ? length : sizeof(bounce);
        long n = sys::call(SYS_pread64, memory, bounce, part, address);
        if (n > 0) {
            part = static_cast<uint64_t>(n);
            result = send_bounced(pipe, part);
        } else if (may_open && (n = send_opened(pipe, address, part, wish.protection)) != -EFAULT) {
            result = n;
            part = n > 0 ? static_cast<uint64_t>(n) : part;
        } else if (wish.zeros_for_missing) {
            part = part < 4096 ? part : 4096;
            for (uint64_t i = 0; i < part; i++)
                bounce[i] = 0;
            result = send_bounced(pipe, part);
        } else {
            result = n == 0 ? -EIO : n;
        }
        address += part;
        length -= part;
    }
    sys::call(SYS_close, memory);
    return sys::failed(result) ? result : 0;
}

// By reference into the pipe.
long splice_pages(int pipe, uint64_t address, uint64_t length)
{
    iovec part = {reinterpret_cast<void *>(address), length};
    return sys::call(SYS_vmsplice, pipe, &part, 1, 0);
}

// By the kernel module. The number of bytes that went through, or −errno.
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
        // The module moves whole pages; where it was cut off inside one, the rest goes by splice.
        const bool whole = (address | length) % 4096 == 0;
        const long n = to.device >= 0 && whole ? dump_pages(to.device, to.pipe, address, length)
                                               : splice_pages(to.pipe, address, length);
        if (n == -EINTR)
            continue;
        if (n == -EFAULT)
            return send_hidden(to.pipe, address, length, wish);
        if (n <= 0)
            return n == 0 ? -EPIPE : n;
        address += static_cast<uint64_t>(n);
        length -= static_cast<uint64_t>(n);
    }
    return 0;
}

// The packet goes from where pages pass through. Their bits shall be set before any of them is
// looked at, in a copy as in the next one, or else one could be taken for unchanged that was not.
bool send_scan(const Channel &to, uint64_t start, uint64_t end)
{
    constexpr size_t size = scanned_at_once * sizeof(cryo_run);
    static_assert(size <= sizeof(bounce));
    for (size_t at = 0; at < size; at += 4096)
        static_cast<volatile char *>(bounce)[at] = 0;
    cryo_scan scan = {};
    scan.size = sizeof(scan);
    scan.start = start;
    scan.end = end;
    scan.runs = reinterpret_cast<uint64_t>(bounce);
    scan.max_runs = scanned_at_once;
    scan.want = CRYO_PAGE_SOFT_DIRTY;
    long result;
    do {
        result = sys::call(SYS_ioctl, to.device, CRYO_IOC_SCAN, &scan);
    } while (result == -EINTR);
    const Reply answer = {protocol_magic, protocol_version, Op::scan,
                          result,         scan.next,        scan.nr_runs};
    const long sent =
        sys::call(SYS_sendto, to.commands, &answer, sizeof(answer), MSG_NOSIGNAL, nullptr, 0);
    if (sys::failed(sent) || sys::failed(result))
        return !sys::failed(sent);
    return !sys::failed(sys::call(SYS_sendto, to.commands, bounce, scan.nr_runs * sizeof(cryo_run),
                                  MSG_NOSIGNAL, nullptr, 0));
}

// Runs in a child that shares our memory, and makes the real copy: its parent ends at once, so the
// program is never asked to wait for a child it does not know.
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
    sys::call(SYS_prctl, PR_SET_NAME, copy_name, 0, 0, 0); // nobody takes it for the program
    const Reply ready = {protocol_magic, protocol_version, Op::fork, 0, 0, 0};
    sys::call(SYS_sendto, channel.commands, &ready, sizeof(ready), MSG_NOSIGNAL, nullptr, 0);
    const long result = serve_pages(channel);
    sys::call(SYS_exit_group, sys::failed(result) ? 1 : 0);
}

} // namespace

long serve_pages(const Channel &channel)
{
    const int commands = channel.commands;
    Command command;
    for (;;) {
        const long n = sys::call(SYS_recvfrom, commands, &command, sizeof(command), 0, nullptr, 0);
        if (n == -EINTR)
            continue;
        if (n != sizeof(command) || command.magic != protocol_magic)
            return -EPIPE; // the checkpointer is gone
        if (command.op == Op::end)
            return 0;
        if (command.op == Op::scan) {
            if (!send_scan(channel, command.arg[0], command.arg[1]))
                return -EPIPE;
            continue;
        }
        if (command.op != Op::pages)
            return -EPROTO;
        const Wish wish = {command.arg[2] != 0, static_cast<int>(command.arg[3]) - 1};
        const long result = send_all(channel, command.arg[0], command.arg[1], wish);
        if (sys::failed(result)) {
            const Reply bad = {protocol_magic, protocol_version, Op::pages, result, 0, 0};
            sys::call(SYS_sendto, commands, &bad, sizeof(bad), MSG_NOSIGNAL, nullptr, 0);
            return result;
        }
    }
}

// When the checkpointer dies, writing to its pipe raises SIGPIPE in this thread, which would end
// the program as soon as the handler returns. It is ours to take back, unless one was waiting
// before.
long serve_own_pages(const Channel &channel)
{
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

long fork_copy(const Channel &channel)
{
    Copy copy = {channel, -EAGAIN};
    const long helper = cryo_clone(CLONE_VM | CLONE_VFORK, stack + sizeof(stack), make_copy, &copy);
    if (sys::failed(helper))
        return helper;
    long reaped;
    do {
        reaped = sys::call(SYS_wait4, helper, nullptr, __WALL, nullptr);
    } while (reaped == -EINTR);
    return copy.pid;
}

} // namespace cryo::agent
