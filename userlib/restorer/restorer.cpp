// SPDX-License-Identifier: Apache-2.0
//
// The restorer: a position-independent piece of code that lies where neither the fresh process nor
// the old one has memory, takes the fresh process apart and puts the old one together.
//
// RULE: no libc, no global data, no relocation, no stack protector; it is linked into a flat
// binary (restorer.lds) and the build fails when it needs anything.
#include "restorer/fork.hpp"
#include "restorer/shared.hpp"
#include "sys/aio_ring.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <linux/cryo.h>
#include <linux/futex.h>
#include <linux/mman.h>

namespace cryo::restore {

namespace {

const char *base(const Shared &shared)
{
    return reinterpret_cast<const char *>(shared.plan);
}

// Allocates many pages at a time, while the pipe is being filled: that
// is cheaper than one fault for each. Where that fails, reading does it.
void make_pages(uint64_t address, uint64_t length)
{
    constexpr int populate_write = 23;
    const uint64_t before = address % sys::page_size;
    sys::call(SYS_madvise, address - before, length + before, populate_write);
}

long fill(uint64_t fd, uint64_t address, uint64_t length)
{
    constexpr uint64_t at_once = 1 << 20;
    uint64_t made = address;
    while (length > 0) {
        if (address >= made && length > sys::page_size) {
            const uint64_t more = length < at_once ? length : at_once;
            make_pages(address, more);
            made = address + more;
        }
        const uint64_t part = length > sys::page_size ? made - address : length;
        const long n = sys::call(SYS_read, fd, address, part);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? -EPIPE : n;
        address += static_cast<uint64_t>(n);
        length -= static_cast<uint64_t>(n);
    }
    return 0;
}

// Nothing is mapped there; MAP_FIXED_NOREPLACE would check that once more, each time.
long map_pieces(const Piece *piece, uint64_t count, uint64_t protection, uint64_t fd)
{
    for (const Piece *end = piece + count; piece != end; piece++) {
        const long at = sys::call(SYS_mmap, piece->address, piece->length, protection,
                                  MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd, piece->offset);
        if (sys::failed(at))
            return at;
        if (static_cast<uint64_t>(at) != piece->address)
            return -EEXIST;
    }
    return 0;
}

// Uses the kernel module, which returns early when a signal is pending.
long restore_memory(const Shared &shared, uint64_t device, cryo_restore &restore, uint64_t bytes)
{
    restore.keep_start = shared.area;
    restore.keep_end = shared.area + shared.area_size;
    do {
        const long result = sys::call(SYS_ioctl, device, CRYO_IOC_RESTORE, &restore);
        if (sys::failed(result) && result != -EINTR)
            return result;
    } while (restore.mapped < restore.nr_regions || restore.done < bytes);
    return 0;
}

// Only requests move the tail: as many as it takes, which read nothing and so end at once. The last
// ones stay unfetched, so that the kernel counts as many events as there are, and these take their
// slots.
long turn_ring(sys::AioRing &ring, const SavedRing &saved, uint64_t file)
{
    constexpr uint64_t at_once = 64;
    iocb request = {};
    request.aio_lio_opcode = IOCB_CMD_PREAD;
    request.aio_fildes = static_cast<uint32_t>(file);
    request.aio_buf = reinterpret_cast<uint64_t>(&ring);
    iocb *requests[at_once];
    for (iocb *&one : requests)
        one = &request;
    const uint64_t unfetched = (saved.tail + saved.slots - saved.head) % saved.slots;
    const uint64_t all = saved.tail < unfetched ? saved.tail + saved.slots : saved.tail;
    for (uint64_t done = 0; done < all;) {
        const bool are_last = done >= all - unfetched;
        if (!are_last || done == all - unfetched)
            ring.head = static_cast<uint32_t>(done % saved.slots); // those before are fetched
        const uint64_t left = (are_last ? all : all - unfetched) - done;
        const long taken =
            sys::call(SYS_io_submit, &ring, left < at_once ? left : at_once, requests);
        if (taken <= 0)
            return taken == 0 ? -EIO : taken;
        done += static_cast<uint64_t>(taken);
    }
    ring.head = saved.head;
    const auto *events = reinterpret_cast<const io_event *>(&saved + 1);
    for (uint64_t i = 0; i < unfetched; i++)
        ring.events()[(saved.head + i) % saved.slots] = events[i];
    return ring.tail == saved.tail ? 0 : -EPROTO;
}

// The kernel places a new ring where it likes, and follows it when it is moved. Its place is
// reserved first: else the kernel may choose one that reaches into it, and no mapping can be moved
// onto a part of itself.
long make_ring(uint64_t address, uint64_t length, const SavedRing &saved, uint64_t file)
{
    const long reserved =
        sys::call(SYS_mmap, address, length, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (sys::failed(reserved))
        return reserved;
    if (static_cast<uint64_t>(reserved) != address) // a kernel that does not know the flag
        return -EEXIST;
    uint64_t context = 0;
    const long made = sys::call(SYS_io_setup, saved.requests, &context);
    if (sys::failed(made))
        return made;
    if (reinterpret_cast<const sys::AioRing *>(context)->slots != saved.slots)
        return -ERANGE;
    const long moved =
        sys::call(SYS_mremap, context, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, address);
    if (sys::failed(moved))
        return moved;
    return turn_ring(*reinterpret_cast<sys::AioRing *>(address), saved, file);
}

[[noreturn]] void go_on(const agent::Context &context)
{
    asm volatile("movq 0(%0), %%rbx\n\t"
                 "movq 8(%0), %%rbp\n\t"
                 "movq 16(%0), %%r12\n\t"
                 "movq 24(%0), %%r13\n\t"
                 "movq 32(%0), %%r14\n\t"
                 "movq 40(%0), %%r15\n\t"
                 "movq 48(%0), %%rsp\n\t"
                 "movl $1, %%eax\n\t"
                 "jmpq *56(%0)"
                 :
                 : "D"(&context)
                 : "memory");
    __builtin_unreachable();
}

void work(Shared &shared, uint32_t first, uint32_t count);

// The data for a new thread. The creator places it at the top of the thread's stack in the area,
// and passes its address to the thread as `start`.
struct Start {
    Shared *shared;
    const Thread *thread;
    uint32_t alive; // futex: cleared by the kernel when a thread with the wrong id has ended
};

extern "C" [[noreturn, gnu::used]] void cryo_restorer_thread(const Start *start)
{
    Shared &shared = *start->shared;
    const Thread &thread = *start->thread;
    if (thread.tid != 0 && sys::call(SYS_gettid) != thread.tid)
        sys::call(SYS_exit, 0); // the creator tries again
    work(shared, thread.first_op, thread.op_count);
    if (thread.clear_child_tid != 0)
        *reinterpret_cast<int32_t *>(thread.clear_child_tid) =
            static_cast<int32_t>(sys::call(SYS_gettid));
    __atomic_fetch_add(&shared.ready, 1, __ATOMIC_RELEASE);
    sys::call(SYS_futex, &shared.ready, FUTEX_WAKE, 1, 0, 0, 0);
    while (__atomic_load_n(&shared.go, __ATOMIC_ACQUIRE) == 0)
        sys::call(SYS_futex, &shared.go, FUTEX_WAIT, 0, 0, 0, 0);
    go_on(thread.context);
}

// clone3(arguments, size), or clone(flags, stack) with nothing else.
long clone_thread(long number, uint64_t first, uint64_t second, const Start *start)
{
    long result;
    register const Start *kept asm("r12") = start;
    register const void *no_tid asm("r10") = nullptr;
    register unsigned long no_tls asm("r8") = 0;
    asm volatile("syscall\n\t"
                 "testq %%rax, %%rax\n\t"
                 "jnz 1f\n\t"
                 "xorl %%ebp, %%ebp\n\t"
                 "movq %%r12, %%rdi\n\t"
                 "call cryo_restorer_thread\n\t"
                 "hlt\n"
                 "1:"
                 : "=a"(result)
                 : "a"(number), "D"(first), "S"(second), "d"(0UL), "r"(no_tid), "r"(no_tls),
                   "r"(kept)
                 : "rcx", "r11", "memory");
    return result;
}

long clone_thread(clone_args &args, const Start *start)
{
    return clone_thread(SYS_clone3, reinterpret_cast<uint64_t>(&args), sizeof(args), start);
}

// Filters of containers deny clone3(), whose arguments they cannot see, and allow clone().
long clone_thread_as_before(const clone_args &args, const Start *start)
{
    return clone_thread(SYS_clone, args.flags, args.stack + args.stack_size, start);
}

// Uses the kernel module. A thread that got another id ends at once.
long clone_with_next_tid(const Ids &ids, clone_args &args, Start &start)
{
    const int32_t tid = start.thread->tid;
    args.flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
    args.child_tid = reinterpret_cast<uint64_t>(&start.alive);
    NextId wished(ids, tid);
    while (wished.comes_free()) {
        const long chosen = wished.choose();
        if (sys::failed(chosen))
            return chosen;
        start.alive = 1;
        const long got = clone_thread(args, &start);
        wished.put_back();
        if (got == tid || sys::failed(got))
            return got;
        while (const uint32_t alive = __atomic_load_n(&start.alive, __ATOMIC_ACQUIRE))
            sys::call(SYS_futex, &start.alive, FUTEX_WAIT, alive, 0, 0, 0);
    }
    return -EBUSY;
}

long start_thread(Shared &shared, const Thread &thread, uint64_t stack_top)
{
    auto *start = reinterpret_cast<Start *>(stack_top - 64);
    start->shared = &shared;
    start->thread = &thread;
    clone_args args = {};
    args.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    args.stack = stack_top - stack_size;
    args.stack_size = stack_size - 64;
    int32_t wished = thread.tid;
    if (wished != 0) {
        args.set_tid = reinterpret_cast<uint64_t>(&wished);
        args.set_tid_size = 1;
    }
    Leaving id(wished);
    long result;
    do
        result = clone_thread(args, start);
    while (result == -EEXIST && id.comes_free());
    if (result == -EPERM && wished != 0 && shared.plan->device_fd >= 0) {
        args.set_tid = 0;
        args.set_tid_size = 0;
        const Header &plan = *shared.plan;
        const Ids ids = {plan.device_fd, plan.home_id, plan.least_id, plan.greatest_id};
        result = clone_with_next_tid(ids, args, *start);
    }
    if (result == -ENOSYS && wished == 0)
        result = clone_thread_as_before(args, start);
    return result == -EEXIST ? -EBUSY : result; // as for the id of a process
}

long start_threads(Shared &shared)
{
    const Header &plan = *shared.plan;
    const auto *threads = reinterpret_cast<const Thread *>(base(shared) + plan.threads);
    for (uint64_t i = 1; i < plan.thread_count; i++) {
        const uint64_t top = shared.area + shared.area_size - (i - 1) * stack_size;
        const long result = start_thread(shared, threads[i], top);
        if (sys::failed(result))
            return result;
    }
    // A failure in a thread thus comes before anything outside this process is changed.
    const auto others = static_cast<uint32_t>(plan.thread_count - 1);
    for (;;) {
        const uint32_t ready = __atomic_load_n(&shared.ready, __ATOMIC_ACQUIRE);
        if (ready == others)
            return 0;
        sys::call(SYS_futex, &shared.ready, FUTEX_WAIT, ready, 0, 0, 0);
    }
}

// The kernel chooses the ids of timers, one above the last, unless it is asked (from 6.15 on) to
// take ours. Timers are made in the order of their ids, so those in between are made and deleted.
long create_timer(uint64_t clock, uint64_t event, int wanted)
{
    constexpr int pr_timer_create_restore_ids = 77;
    int id = wanted;
    const bool ask = sys::call(SYS_prctl, pr_timer_create_restore_ids, 1, 0, 0, 0) == 0;
    long result = sys::call(SYS_timer_create, clock, event, &id);
    while (!ask && !sys::failed(result) && id < wanted) {
        sys::call(SYS_timer_delete, id);
        result = sys::call(SYS_timer_create, clock, event, &id);
    }
    if (ask)
        sys::call(SYS_prctl, pr_timer_create_restore_ids, 0, 0, 0, 0);
    return sys::failed(result) || id == wanted ? result : -EEXIST;
}

long do_op(Shared &shared, const Op &op)
{
    uint64_t arg[6];
    for (int i = 0; i < 6; i++) {
        arg[i] = op.arg[i];
        if (op.kind[i] == Arg::data)
            arg[i] += reinterpret_cast<uint64_t>(shared.plan);
        else if (op.kind[i] == Arg::slot)
            arg[i] = shared.slot[op.arg[i]];
        else if (op.kind[i] == Arg::load)
            arg[i] = *reinterpret_cast<const uint32_t *>(base(shared) + op.arg[i]);
    }
    switch (op.what) {
    case Do::syscall: {
        long result;
        do {
            result = sys::call(op.nr, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
        } while (result == -EINTR);
        return result;
    }
    case Do::unmap_all:
        return keep_only(shared, nullptr, 0);
    case Do::keep:
        return keep_only(shared, reinterpret_cast<const Range *>(arg[0]), arg[1]);
    case Do::empty:
        return empty(reinterpret_cast<const Range *>(arg[0]), arg[1]);
    case Do::fork:
        return fork_copy(shared, static_cast<pid_t>(arg[0]), {arg[1], arg[2], arg[3], arg[4]},
                         arg[5]);
    case Do::fill:
        return fill(arg[0], arg[1], arg[2]);
    case Do::threads:
        return start_threads(shared);
    case Do::store:
        if (arg[2] == sizeof(uint32_t))
            *reinterpret_cast<uint32_t *>(arg[0]) = static_cast<uint32_t>(arg[1]);
        else
            *reinterpret_cast<uint64_t *>(arg[0]) = arg[1];
        return 0;
    case Do::copy:
        for (uint64_t i = 0; i < arg[2]; i++)
            reinterpret_cast<volatile char *>(arg[0])[i] =
                reinterpret_cast<const char *>(arg[1])[i];
        return 0;
    case Do::timer:
        return create_timer(arg[0], arg[1], static_cast<int>(arg[2]));
    case Do::restore:
        return restore_memory(shared, arg[0], *reinterpret_cast<cryo_restore *>(arg[1]), arg[2]);
    case Do::ring:
        return make_ring(arg[0], arg[1], *reinterpret_cast<const SavedRing *>(arg[2]), arg[3]);
    case Do::map:
        return map_pieces(reinterpret_cast<const Piece *>(arg[0]), arg[1], arg[2], arg[3]);
    }
    return -ENOSYS;
}

void work(Shared &shared, uint32_t first, uint32_t count)
{
    const auto *ops = reinterpret_cast<const Op *>(base(shared) + shared.plan->ops);
    for (uint32_t i = first; i < first + count; i++) {
        const Op &op = ops[i];
        const long result = do_op(shared, op);
        if (op.slot != 0)
            shared.slot[op.slot] = static_cast<uint64_t>(result);
        const bool bad = op.expect == Expect::success ? sys::failed(result)
                         : op.expect == Expect::exact ? result != static_cast<long>(op.want)
                                                      : false;
        if (bad)
            fail(shared, i, sys::failed(result) ? result : -EEXIST);
    }
}

} // namespace

// The entry, at offset 0 of the flat binary.
extern "C" [[noreturn, gnu::used, gnu::section(".text.entry")]] void
cryo_restorer(const Header *plan, uint64_t area, uint64_t area_size, void *scratch)
{
    Shared &shared = *static_cast<Shared *>(scratch); // zeroed by the caller
    shared.plan = plan;
    shared.area = area;
    shared.area_size = area_size;
    work(shared, 0, static_cast<uint32_t>(plan->op_count));

    const auto &main = *reinterpret_cast<const Thread *>(base(shared) + plan->threads);
    const auto others = static_cast<uint32_t>(plan->thread_count - 1);
    if (main.clear_child_tid != 0)
        *reinterpret_cast<int32_t *>(main.clear_child_tid) =
            static_cast<int32_t>(sys::call(SYS_gettid));
    auto &resume = *reinterpret_cast<agent::ResumeInfo *>(plan->resume_info);
    resume.area = area;
    resume.area_size = area_size;
    resume.status_fd = plan->status_fd;
    resume.restarted = 1;
    resume.left = 0;
    resume.expected = others + 1;
    __atomic_store_n(&shared.go, 1, __ATOMIC_RELEASE);
    sys::call(SYS_futex, &shared.go, FUTEX_WAKE, 0x7fffffff, 0, 0, 0);
    go_on(main.context);
}

} // namespace cryo::restore
