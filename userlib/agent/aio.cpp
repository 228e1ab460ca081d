// SPDX-License-Identifier: Apache-2.0
// Whether requests are under way in a context of asynchronous I/O (io_setup). The kernel does not
// report it, and nobody sees the program submit them. But the kernel takes only as many requests as
// there will be room for their events in the ring. So while the program stands still, the context
// is filled with requests that end at once: it takes as many as an idle one only if it is idle.
//
// The program must not notice, even where a thread was stopped while it read the ring itself. So
// requests follow until the tail has come round to where it was, and then the program's events are
// put back into their slots. The last requests stay unfetched, as many as there are such events,
// so that the kernel counts these, too. What ends meanwhile is added behind them.
//
// The kernel keeps a part of the room for each processor, so requests are sent from each of them. A
// part that is kept for one where this process may not run looks like requests under way, never the
// other way round.
#include "agent/agent.hpp"
#include "agent/room.hpp"
#include "sys/aio_ring.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <linux/memfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

namespace cryo::agent {

namespace {

constexpr uint64_t at_once = 256;
constexpr unsigned bits = 64;
constexpr unsigned most_processors = 8192; // the kernel's limit

// Static: the handler's stack may be small. Only the leader and its helper use them.
alignas(16) char stack[16384];
iocb own_request;
iocb *requests[at_once];
uint64_t home[most_processors / bits];    // where the program runs
uint64_t allowed[most_processors / bits]; // where it could run
uint64_t chosen[most_processors / bits];
uint32_t is_called_back; // another program may keep a processor for itself, for ever

struct Probe {
    sys::AioRing *ring;
    uint64_t idle;  // requests that the context takes while none is under way
    uint32_t slots; // of the ring, known from its size
    uint32_t head, tail, unfetched;
    io_event *kept; // events of the program's requests, in their order
    uint64_t kept_count;
    uint64_t seen; // events that have been looked at, counted from the head that we found
    uint64_t sent; // our own requests
    long result;
};

uint32_t slot_of(const Probe &p, uint64_t event)
{
    return static_cast<uint32_t>((p.head + event) % p.slots);
}

void set_head(const Probe &p, uint32_t head)
{
    __atomic_store_n(&p.ring->head, head, __ATOMIC_RELEASE);
}

// Requests that read nothing: the kernel is done with them before it returns.
void prepare_requests(int file)
{
    own_request = {};
    own_request.aio_lio_opcode = IOCB_CMD_PREAD;
    own_request.aio_fildes = static_cast<uint32_t>(file);
    own_request.aio_buf = reinterpret_cast<uint64_t>(&own_request);
    for (iocb *&one : requests)
        one = &own_request;
}

// The helper has an affinity of its own, which ends with it. The kernel leaves those processors
// that there are.
void find_processors()
{
    for (unsigned i = 0; i < most_processors / bits; i++) {
        chosen[i] = 0;
        allowed[i] = ~uint64_t(0);
    }
    sys::call(SYS_sched_setaffinity, 0, sizeof(allowed), allowed);
    for (uint64_t &word : allowed)
        word = 0;
    sys::call(SYS_sched_getaffinity, 0, sizeof(allowed), allowed);
}

bool go_to(unsigned processor)
{
    const uint64_t bit = uint64_t(1) << (processor % bits);
    if ((allowed[processor / bits] & bit) == 0 ||
        __atomic_load_n(&is_called_back, __ATOMIC_ACQUIRE) != 0)
        return false;
    chosen[processor / bits] = bit;
    const long moved = sys::call(SYS_sched_setaffinity, 0, sizeof(chosen), chosen);
    chosen[processor / bits] = 0;
    return !sys::failed(moved);
}

// −EAGAIN: not all of them are taken, on no processor.
long send(Probe &p, uint64_t wanted)
{
    const uint64_t goal = p.sent + wanted;
    for (unsigned turn = 0; p.sent < goal && turn <= most_processors; turn++) {
        if (turn > 0 && !go_to(turn - 1))
            continue;
        while (p.sent < goal) {
            const uint64_t left = goal - p.sent;
            const long taken =
                sys::call(SYS_io_submit, p.ring, left < at_once ? left : at_once, requests);
            if (taken == -EAGAIN)
                break;
            if (taken <= 0)
                return taken == 0 ? -EIO : taken;
            p.sent += static_cast<uint64_t>(taken);
        }
    }
    return p.sent == goal ? 0 : -EAGAIN;
}

// Keeps the events of requests that were the program's.
void collect(Probe &p)
{
    const uint32_t tail = __atomic_load_n(&p.ring->tail, __ATOMIC_ACQUIRE) % p.slots;
    for (; slot_of(p, p.seen) != tail; p.seen++) {
        const io_event &event = p.ring->events()[slot_of(p, p.seen)];
        if (event.obj != reinterpret_cast<uint64_t>(&own_request) && p.kept_count < p.slots)
            p.kept[p.kept_count++] = event;
    }
}

// The kept events become the unfetched ones, from this slot on. Slots behind them are the kernel's.
void put_back(const Probe &p, uint32_t first)
{
    for (uint64_t i = 0; i < p.kept_count; i++)
        p.ring->events()[(first + i) % p.slots] = p.kept[i];
    set_head(p, first);
}

// Where the head may be. As many events as are kept stay behind it wherever there is room, so that
// the kernel counts them as unfetched even if the ring cannot be brought round.
uint64_t head_of(const Probe &p, uint64_t goal)
{
    const uint64_t ours = p.seen - p.kept_count;
    const bool may_lag = p.kept_count <= p.idle / 2 && ours >= p.unfetched;
    const uint64_t place = may_lag ? ours : p.seen;
    return place < goal ? place : goal;
}

// Restores the positions in the ring. The head stops at the end of the round, so that the kernel
// counts what is behind it as unfetched.
long come_round(Probe &p)
{
    constexpr int patience = 1000;
    const uint64_t least = p.sent > p.unfetched ? p.sent : p.unfetched;
    const uint64_t goal = (least + p.slots - 1) / p.slots * p.slots;
    const uint64_t part = p.idle / 2 + 1; // there is room for so many, if nearly all are ours
    long result = 0;
    for (int fruitless = 0; fruitless < patience; fruitless++) {
        collect(p);
        set_head(p, slot_of(p, head_of(p, goal)));
        if (p.sent == goal) {
            put_back(p, p.head);
            return 0;
        }
        const uint64_t before = p.sent;
        const uint64_t left = goal - p.sent;
        result = send(p, left < part ? left : part);
        if (p.sent != before)
            fruitless = 0;
        else
            sys::call(SYS_sched_yield);
    }
    // What room there is has come to processors where we may not run. The ring is good, but turned.
    collect(p);
    put_back(p, slot_of(p, p.seen - p.kept_count));
    return result;
}

long fill(Probe &p)
{
    for (uint32_t i = 0; i < p.unfetched; i++)
        p.kept[i] = p.ring->events()[slot_of(p, i)];
    p.kept_count = p.unfetched;
    p.seen = p.unfetched;
    set_head(p, p.tail); // else the kernel would believe what the program wrote there
    const long filled = send(p, p.idle);
    if (p.sent == 0 && filled != -EAGAIN) { // requests are not allowed, or not understood
        set_head(p, p.head);
        return filled == 0 ? -EIO : filled;
    }
    const long back = come_round(p);
    if (filled != 0 && filled != -EAGAIN)
        return filled;
    if (back != 0)
        return back == -EAGAIN ? -EBUSY : back;
    return filled == 0 && p.kept_count == p.unfetched ? 0 : -EBUSY;
}

// A short-lived process that shares the memory, and so the contexts.
void help(void *of)
{
    Probe &p = *static_cast<Probe *>(of);
    const long file = with_room([] { return sys::call(SYS_memfd_create, "cryo", MFD_CLOEXEC); });
    if (sys::failed(file)) {
        p.result = file;
        return;
    }
    const uint64_t size = p.slots * sizeof(io_event);
    const long kept = sys::call(SYS_mmap, nullptr, size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sys::failed(kept)) {
        p.result = kept;
        sys::call(SYS_close, file);
        return;
    }
    prepare_requests(static_cast<int>(file));
    find_processors();
    p.kept = reinterpret_cast<io_event *>(kept);
    p.result = fill(p);
    sys::call(SYS_munmap, kept, size);
    sys::call(SYS_close, file);
}

// The ring is half changed until the helper has ended, so there is no limit. But after a while it
// is called back from where it may never run, and is woken if it was stopped.
void await_helper(long helper)
{
    constexpr int patience = 300, pause = 20; // ms
    const long ended = with_room([&] { return sys::call(SYS_pidfd_open, helper, 0); });
    if (!sys::failed(ended)) {
        pollfd waited = {static_cast<int>(ended), POLLIN, 0};
        for (int limit = patience;; limit = pause) {
            const long ready = sys::call(SYS_poll, &waited, 1, limit);
            if (ready == -EINTR)
                continue;
            if (ready != 0)
                break; // it has ended; or no descriptor may be waited for, as RLIMIT_NOFILE is 0
            __atomic_store_n(&is_called_back, 1, __ATOMIC_RELEASE);
            sys::call(SYS_sched_setaffinity, helper, sizeof(home), home);
            sys::call(SYS_kill, helper, SIGCONT);
        }
        sys::call(SYS_close, ended);
    }
    while (sys::call(SYS_wait4, helper, nullptr, __WALL, nullptr) == -EINTR)
        ;
}

long look(Probe &p, uint64_t bytes)
{
    // A filter that nobody has tried out might kill for this, but a program with one is refused.
    if (may_end_by_a_look())
        return -EPERM;
    const long known = sys::call(SYS_io_submit, p.ring, 0, nullptr);
    if (known != 0)
        return known == -EINVAL ? -ESRCH : known;
    p.slots = p.ring->slots;
    p.head = p.ring->head;
    p.tail = p.ring->tail;
    if (p.ring->magic != sys::aio_magic || p.ring->header_size != sizeof(*p.ring) ||
        p.slots != sys::aio_slots(bytes) || p.head >= p.slots || p.tail >= p.slots)
        return -EPROTO;
    p.unfetched = (p.tail + p.slots - p.head) % p.slots;
    if (p.unfetched > aio_most)
        return -E2BIG;
    if (p.unfetched > p.idle || p.idle >= p.slots)
        return -EPROTO;
    p.result = -EIO;
    is_called_back = 0;
    for (uint64_t &word : home)
        word = 0;
    sys::call(SYS_sched_getaffinity, 0, sizeof(home), home);
    // The descriptors are shared: the end of a copy of them would flush each file (NFS, FUSE).
    const long helper =
        cryo_clone(CLONE_VM | CLONE_FILES | CLONE_FS, stack + sizeof(stack), help, &p);
    if (sys::failed(helper))
        return helper;
    await_helper(helper);
    return p.result;
}

} // namespace

void send_aio(int connection, const AioRequest &request)
{
    Probe p = {};
    p.ring = reinterpret_cast<sys::AioRing *>(request.ring.number());
    p.idle = request.idle;
    const long result = look(p, request.bytes);
    Reply answer = {protocol_magic, protocol_version, Op::aio, result, 0, 0};
    if (result == 0) {
        answer.value = p.head | uint64_t(p.tail) << 32;
        answer.count = (p.unfetched + aio_at_once - 1) / aio_at_once;
    }
    send_packet(connection, &answer, sizeof(answer));
    static io_event events[aio_at_once];
    for (uint64_t i = 0, left = p.unfetched; i < answer.count; i++) {
        uint32_t part = 0;
        for (; part < aio_at_once && left > 0; part++, left--)
            events[part] = p.ring->events()[slot_of(p, p.unfetched - left)];
        send_packet(connection, events, part * sizeof(io_event));
    }
}

} // namespace cryo::agent
