// SPDX-License-Identifier: Apache-2.0
// Answers one checkpointer, from Stop to Resume. If it dies, or is silent for too long, the program
// continues.
#include "agent/advice.hpp"
#include "agent/callbacks.hpp"
#include "agent/kept_numbers.hpp"
#include "agent/room.hpp"
#include "protocol/decode.hpp"
#include "sys/newer_numbers.hpp"
#include "sys/page.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <linux/membarrier.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

namespace cryo::agent {

namespace {

bool reply(int to, Op op, long result, uint64_t value = 0, uint64_t count = 0)
{
    const Reply answer = {protocol_magic, protocol_version, op, result, value, count};
    return !sys::failed(send_packet(to, &answer, sizeof(answer)));
}

constexpr int max_fds = 3;

bool brings_descriptors(Op op)
{
    return op == Op::fork || op == Op::serve || op == Op::stage;
}

// Raises the descriptor limit if the message brings descriptors. Only once it has arrived, so that
// other processes that read the limit meanwhile see the program's own.
long receive_with_room(int from, msghdr &message)
{
    constexpr int flags = MSG_CMSG_CLOEXEC | MSG_TRUNC;
    Head next = {};
    const long n = receive_packet(from, &next, sizeof(next), MSG_PEEK);
    if (n != sizeof(next) || !brings_descriptors(next.op))
        return receive_message(from, &message, flags);
    const Room room;
    return receive_message(from, &message, flags);
}

// Receives one request and up to three descriptors, and returns its size or −errno; `cut`: there
// was no room for them. The kernel may report the end of the connection before the last request
// (base/passing.hpp).
long receive(int from, Incoming &to, int (&fds)[max_fds], bool &cut)
{
    iovec part = {&to, sizeof(to)};
    alignas(cmsghdr) char control[CMSG_SPACE(max_fds * sizeof(int))];
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    for (int &fd : fds)
        fd = -1;
    long n = 0;
    for (int looks = 0; n == 0 && looks < 2; looks++) {
        message.msg_controllen = CMSG_LEN(max_fds * sizeof(int)); // the padding has room for more
        n = receive_with_room(from, message);
    }
    const cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (head != nullptr && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
        const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count && i < max_fds; i++)
            fds[i] = reinterpret_cast<const int *>(CMSG_DATA(head))[i];
    }
    cut = n > 0 && (message.msg_flags & MSG_CTRUNC) != 0;
    return n;
}

void close_all(int (&fds)[max_fds])
{
    for (int &fd : fds) {
        if (fd >= 0)
            sys::call(SYS_close, fd);
        fd = -1;
    }
}

long prctl_value(int option)
{
    return sys::call(SYS_prctl, option, 0, 0, 0, 0);
}

// The kernel does not report what mlockall() set for future memory, but such memory shows it: it
// cannot be invalidated, and it is resident at once unless MCL_ONFAULT was set.
uint32_t locked_from_now_on()
{
    constexpr size_t size = sys::page_size;
    const long page = sys::call(SYS_mmap, nullptr, size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sys::failed(page))
        return page == -EAGAIN ? MCL_FUTURE : 0; // the limit on locked memory is reached
    unsigned char resident = 0;
    const bool locked = sys::call(SYS_msync, page, size, MS_ASYNC | MS_INVALIDATE) == -EBUSY;
    sys::call(SYS_mincore, page, size, &resident);
    sys::call(SYS_munmap, page, size);
    if (!locked)
        return 0;
    return MCL_FUTURE | ((resident & 1) != 0 ? 0 : MCL_ONFAULT);
}

// Older kernels do not report them, but reject a command that is not registered.
uint32_t membarrier_registrations()
{
    constexpr int get_registrations = 1 << 9;
    const long told = sys::call(SYS_membarrier, get_registrations, 0, 0);
    if (!sys::failed(told))
        return static_cast<uint32_t>(told);
    uint32_t found = 0;
    for (const int command : {1 << 3, 1 << 5, 1 << 7}) { // PRIVATE_EXPEDITED, SYNC_CORE, RSEQ
        if (!sys::failed(sys::call(SYS_membarrier, command, 0, 0)))
            found |= static_cast<uint32_t>(command) << 1; // its registration
    }
    return found;
}

// The kernel checks the key before the mapping, and the last page of the largest address space is
// never mapped.
uint32_t allocated_protection_keys()
{
    constexpr long keys = 16;
    constexpr long page = sys::page_size;
    constexpr long nowhere = (1L << 56) - page;
    uint32_t allocated = 0;
    for (long key = 1; key < keys; key++) {
        if (sys::call(SYS_pkey_mprotect, nowhere, page, PROT_NONE, key) == -ENOMEM)
            allocated |= 1U << key;
    }
    return allocated;
}

// A read tells as much of an empty table as of a full one. Filters are not judged for this call.
bool has_local_segments()
{
    uint64_t first = 0;
    return prctl_value(PR_GET_SECCOMP) == SECCOMP_MODE_DISABLED &&
           sys::call(SYS_modify_ldt, 0, &first, sizeof(first)) > 0;
}

ProcessFacts process_facts(int connection)
{
    ProcessFacts facts = {};
    facts.brk = static_cast<uint64_t>(sys::call(SYS_brk, 0));
    facts.resume_info = reinterpret_cast<uint64_t>(&state.resume);
    for (int which = 0; which < 3; which++) {
        itimerval value = {};
        sys::call(SYS_getitimer, which, &value);
        facts.itimer[which][0] = value.it_interval.tv_sec;
        facts.itimer[which][1] = value.it_interval.tv_usec;
        facts.itimer[which][2] = value.it_value.tv_sec;
        facts.itimer[which][3] = value.it_value.tv_usec;
    }
    facts.dumpable = static_cast<int>(prctl_value(PR_GET_DUMPABLE));
    facts.no_new_privs = static_cast<int>(prctl_value(PR_GET_NO_NEW_PRIVS));
    facts.keep_caps = static_cast<int>(prctl_value(PR_GET_KEEPCAPS));
    facts.thp_disable = static_cast<int>(prctl_value(PR_GET_THP_DISABLE));
    sys::call(SYS_prctl, PR_GET_CHILD_SUBREAPER, &facts.subreaper, 0, 0, 0);
    sys::call(SYS_arch_prctl, sys::arch_get_xcomp_perm, &facts.xcomp_permitted);
    facts.mlockall = locked_from_now_on();
    facts.membarrier = membarrier_registrations();
    facts.memory_merge = static_cast<int>(prctl_value(sys::pr_get_memory_merge));
    facts.protection_keys = allocated_protection_keys();
    if (const long bits = may_ask_for_settings() ? prctl_value(sys::pr_get_mdwe) : 0; bits > 0)
        facts.write_execute = static_cast<uint32_t>(bits);
    facts.segments = has_local_segments() ? 1 : 0;
    facts.since_advice = since_last_advice();
    facts.control_fd = state.listener;
    facts.signal = state.signal;
    facts.connection_fd = connection;
    return facts;
}

long timer_facts(int id, TimerFacts &facts)
{
    itimerspec found = {};
    const long result = sys::call(SYS_timer_gettime, id, &found);
    facts.interval = found.it_interval.tv_sec * 1'000'000'000 + found.it_interval.tv_nsec;
    facts.remaining = found.it_value.tv_sec * 1'000'000'000 + found.it_value.tv_nsec;
    return result;
}

// Whether all the user ids of the process are root's.
bool is_roots()
{
    uid_t real = 1;
    uid_t effective = 1;
    uid_t saved = 1;
    return !sys::failed(sys::call(SYS_getresuid, &real, &effective, &saved)) && real == 0 &&
           effective == 0 && saved == 0;
}

uint64_t proof; // see ProveRequest

// Static: the handler's stack may be small. Only the leader uses it.
Incoming incoming;
SignalAction actions[max_signals];
OwnFacts own_facts;
uint64_t policy_addresses[policies_at_once];
Policy policies[policies_at_once];

void read_actions()
{
    for (int signal = 1; signal <= max_signals; signal++)
        sys::call(SYS_rt_sigaction, signal, nullptr, &actions[signal - 1], 8);
    if (state.knocked)
        actions[library_signal - 1] = state.library_action;
}

bool send_policies(int connection)
{
    const long n = receive_packet(connection, policy_addresses, sizeof(policy_addresses));
    if (n <= 0)
        return false;
    const size_t count = static_cast<size_t>(n) / sizeof(policy_addresses[0]);
    for (size_t i = 0; i < count; i++)
        get_policy(policies[i], policy_addresses[i], MPOL_F_ADDR);
    return reply(connection, Op::policies, 0, 0, 1) &&
           !sys::failed(send_packet(connection, policies, count * sizeof(policies[0])));
}

// No code of the program runs between the image and the signal. A stop is sent to this very thread,
// which takes it before it releases any other.
void end_with(int signal)
{
    const long pid = sys::call(SYS_getpid);
    if (signal == SIGSTOP)
        sys::call(SYS_tgkill, pid, sys::call(SYS_gettid), signal);
    else if (signal != 0)
        sys::call(SYS_kill, pid, signal);
}

// Answers the requests of one checkpointer.
struct Server {
    int connection;
    int self;                        // the leader
    int fds[max_fds] = {-1, -1, -1}; // that came with the request
    bool is_stopped = false;
    bool is_proven = false; // the checkpointer may read all of the process
    bool is_over = false;

    void answer(const ProveRequest &request)
    {
        const uint64_t found = __atomic_exchange_n(&proof, 0, __ATOMIC_ACQ_REL);
        is_proven = request.written != 0 && request.written == found && is_roots();
        reply(connection, Op::prove, request.written == 0 || is_proven ? 0 : -EPERM,
              reinterpret_cast<uint64_t>(&proof));
    }
    void answer(const StopRequest &)
    {
        int blamed = 0;
        long result = 0;
        if (const int vote = round.vote.load() & 0xffff; vote != 0)
            result = -vote;
        else if (prctl_value(PR_GET_DUMPABLE) != 1 && !is_proven)
            result = -EPERM;
        else
            result = stop_threads(self, &blamed);
        is_stopped = !sys::failed(result);
        is_over = !is_kept(connection); // from here on no thread can close it
        if (is_over)
            return;
        reply(connection, Op::stop, result,
              is_stopped ? state.threads + 1 : static_cast<uint64_t>(blamed));
    }
    void answer(const ThreadsRequest &) const
    {
        reply(connection, Op::threads, 0, 0, state.threads + 1);
        send_packet(connection, &state.slots[max_threads].facts, sizeof(ThreadFacts));
        for (size_t i = 0; i < state.threads; i++)
            send_packet(connection, &state.slots[i].facts, sizeof(ThreadFacts));
    }
    void answer(const ProcessRequest &) const
    {
        const ProcessFacts facts = process_facts(connection);
        reply(connection, Op::process, 0, 0, 1);
        send_packet(connection, &facts, sizeof(facts));
    }
    void answer(const ActionsRequest &) const
    {
        read_actions();
        reply(connection, Op::actions, 0, 0, 1);
        send_packet(connection, actions, sizeof(actions));
    }
    void answer(const TimerRequest &request) const
    {
        TimerFacts facts = {};
        const long result = timer_facts(request.id, facts);
        reply(connection, Op::timer, result, 0, sys::failed(result) ? 0 : 1);
        if (!sys::failed(result))
            send_packet(connection, &facts, sizeof(facts));
    }
    void answer(const OwnRequest &) const
    {
        fill_own_facts(own_facts, connection);
        reply(connection, Op::own, 0, 0, 1);
        send_packet(connection, &own_facts, sizeof(own_facts));
    }
    void answer(const ForkRequest &)
    {
        const long result = fork_copy({fds[0], fds[1], fds[2]});
        close_all(fds);
        reply(connection, Op::fork, sys::failed(result) ? result : 0,
              static_cast<uint64_t>(result));
    }
    void answer(const ServeRequest &)
    {
        const long result = serve_own_pages({fds[0], fds[1], fds[2]});
        close_all(fds);
        reply(connection, Op::serve, result);
    }
    void answer(const StageRequest &request)
    {
        uint64_t copied = 0;
        const long result = stage_pages(connection, request, fds[0], copied);
        close_all(fds);
        reply(connection, Op::stage, result, copied);
    }
    void answer(const DescriptorsRequest &request) const { send_descriptors(connection, request); }
    void answer(const TerminalRequest &request) const { send_terminal(connection, request); }
    void answer(const LodgerRequest &) const { send_lodger(connection); }
    void answer(const WatchesRequest &) const { send_watches(connection); }
    void answer(const IpcRequest &) const { send_ipc(connection); }
    void answer(const QueueRequest &request) const { send_queue(connection, request); }
    void answer(const TrackerRequest &request) const { send_tracker(connection, request); }
    void answer(const WatchedRequest &request) const
    {
        reply(connection, Op::watched, set_watched(request));
    }
    void answer(const TouchedRequest &request) const { send_touched(connection, request); }
    void answer(const UndoRequest &request) const { send_undo(connection, request); }
    void answer(const AioRequest &request) const { send_aio(connection, request); }
    void answer(const PoliciesRequest &)
    {
        is_over = !send_policies(connection) && !line.is_silent;
    }
    void answer(const AliveRequest &request) const
    {
        if ((request.flags & AliveRequest::wants_reply) != 0)
            reply(connection, Op::alive, 0);
    }
    void answer(const ResumeRequest &request)
    {
        round.result = -(request.why & 0xffff);
        if (reply(connection, Op::resume, 0))
            end_with(request.signal);
        is_over = !line.is_silent;
    }
};

// The requests that a checkpointer may send on its connection. Prepare comes before (round.cpp);
// what is asked of those that serve pages is in pages.cpp.
using Served = Requests<StopRequest, ThreadsRequest, ProcessRequest, ActionsRequest, TimerRequest,
                        OwnRequest, ForkRequest, ServeRequest, StageRequest, DescriptorsRequest,
                        TerminalRequest, LodgerRequest, WatchesRequest, IpcRequest, QueueRequest,
                        TrackerRequest, WatchedRequest, TouchedRequest, UndoRequest, AioRequest,
                        PoliciesRequest, AliveRequest, ResumeRequest, ProveRequest>;

bool needs_a_stop(Op op)
{
    return op != Op::stop && op != Op::alive && op != Op::resume && op != Op::prove;
}

} // namespace

void serve(int connection)
{
    Server server = {connection, static_cast<int>(sys::call(SYS_gettid))};
    round.result = -ECANCELED; // in case the requester is gone before it resumes the program
    bool cut = false;
    while (!server.is_over && (server.is_stopped || is_kept(connection))) {
        const long n = receive(connection, incoming, server.fds, cut);
        if (!is_request(incoming, n) || (!server.is_stopped && needs_a_stop(incoming.head.op)))
            break;
        // If there was no room, the program is at its hard limit of descriptors.
        const long refused = cut ? -EMFILE : Served::decode(incoming, n, server);
        close_all(server.fds);
        if (refused != 0)
            reply(connection, incoming.head.op, refused);
    }
    close_all(server.fds);
    if (line.is_silent) {
        round.result = -ETIME;
        if (is_kept(connection))
            say_called_off(connection);
    }
}

} // namespace cryo::agent
