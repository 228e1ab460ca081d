// SPDX-License-Identifier: Apache-2.0
#include "look/agent_calls.hpp"

#include "look/filter_program.hpp"
#include "sys/newer_numbers.hpp"

#include <algorithm>
#include <asm/prctl.h>
#include <asm/termbits.h>
#include <fcntl.h>
#include <linux/cryo.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

namespace cryo::capture {

namespace {

constexpr uint64_t thread_registers[] = {ARCH_GET_FS, ARCH_GET_GS, ARCH_GET_CPUID,
                                         sys::arch_get_xcomp_perm};
constexpr uint64_t clone_flags[] = {0, CLONE_VM, CLONE_VM | CLONE_FILES | CLONE_FS};
constexpr uint64_t descriptor_commands[] = {F_GETFL,  F_SETFL,     F_SETFD,
                                            F_SETSIG, F_SETOWN_EX, F_DUPFD_CLOEXEC};
constexpr uint64_t futex_operations[] = {FUTEX_WAIT, FUTEX_WAKE, FUTEX_WAIT_PRIVATE,
                                         FUTEX_WAKE_PRIVATE};
constexpr uint64_t socket_level[] = {SOL_SOCKET};
constexpr uint64_t device_requests[] = {TCGETS2, TCSETS2, TIOCGPKT, TIOCPKT, TIOCGPTPEER};
constexpr uint64_t dispensable_requests[] = {UFFDIO_API, CRYO_IOC_DUMP, CRYO_IOC_SCAN};
constexpr uint64_t memory_protections[] = {PROT_READ | PROT_WRITE};
constexpr uint64_t page_protections[] = {PROT_NONE, PROT_READ, PROT_WRITE};
constexpr uint64_t open_flags[] = {O_RDONLY | O_CLOEXEC, O_WRONLY | O_CLOEXEC,
                                   O_RDWR | O_NONBLOCK | O_CLOEXEC, O_PATH | O_CLOEXEC,
                                   O_PATH | O_NOFOLLOW | O_CLOEXEC};
constexpr uint64_t process_options[] = {
    PR_GET_DUMPABLE,   PR_GET_KEEPCAPS,        PR_GET_NO_NEW_PRIVS, PR_GET_PDEATHSIG,
    PR_GET_SECCOMP,    PR_GET_SECUREBITS,      PR_GET_THP_DISABLE,  PR_GET_TID_ADDRESS,
    PR_GET_TIMERSLACK, PR_GET_CHILD_SUBREAPER, PR_SET_NAME,         sys::pr_get_memory_merge};
constexpr uint64_t settings[] = {PR_GET_TSC, PR_MCE_KILL_GET, PR_GET_SPECULATION_CTRL,
                                 sys::pr_get_mdwe};
constexpr uint64_t limits[] = {RLIMIT_NOFILE, RLIMIT_FSIZE};
constexpr uint64_t socket_family[] = {AF_UNIX};
constexpr uint64_t filter_operation[] = {SECCOMP_SET_MODE_FILTER};

#define CALL(name)                                                                                 \
    AgentCall                                                                                      \
    {                                                                                              \
        SYS_##name, #name                                                                          \
    }

constexpr AgentCall with(AgentCall call, int argument, std::span<const uint64_t> values)
{
    call.known_argument = argument;
    call.values = values;
    return call;
}

constexpr AgentCall dispensable(AgentCall call)
{
    call.is_dispensable = true;
    return call;
}

constexpr AgentCall of_agent[] = {
    CALL(accept4),
    with(CALL(arch_prctl), 0, thread_registers),
    CALL(bind),
    CALL(brk),
    CALL(chmod),
    CALL(clock_gettime),
    with(CALL(clone), 0, clone_flags),
    CALL(close),
    CALL(close_range),
    CALL(dup3),
    CALL(exit_group),
    CALL(fchmod),
    with(CALL(fcntl), 1, descriptor_commands),
    CALL(fstat),
    CALL(fstatfs),
    with(CALL(futex), 1, futex_operations),
    CALL(get_mempolicy),
    CALL(get_robust_list),
    CALL(getdents64),
    CALL(geteuid),
    CALL(getitimer),
    CALL(getpgid),
    CALL(getpid),
    CALL(getppid),
    CALL(getrandom),
    CALL(getresuid),
    CALL(getsid),
    CALL(getsockname),
    with(CALL(getsockopt), 1, socket_level),
    CALL(gettid),
    CALL(inotify_add_watch),
    CALL(io_submit),
    dispensable(CALL(io_uring_enter)),
    with(CALL(ioctl), 1, device_requests),
    dispensable(with(CALL(ioctl), 1, dispensable_requests)),
    dispensable(CALL(kcmp)),
    dispensable(CALL(keyctl)),
    CALL(kill),
    CALL(listen),
    CALL(lstat),
    CALL(membarrier),
    CALL(memfd_create),
    CALL(mincore),
    with(CALL(mmap), 2, memory_protections),
    with(CALL(mprotect), 2, page_protections),
    CALL(mq_getsetattr),
    CALL(mq_timedreceive),
    CALL(mq_timedsend),
    CALL(msgctl),
    CALL(msync),
    CALL(munmap),
    with(CALL(openat), 2, open_flags),
    CALL(pidfd_open),
    CALL(pipe2),
    CALL(pkey_mprotect),
    CALL(poll),
    CALL(ppoll),
    with(CALL(prctl), 0, process_options),
    dispensable(with(CALL(prctl), 0, settings)),
    CALL(pread64),
    with(CALL(prlimit64), 1, limits),
    CALL(pwritev),
    CALL(read),
    CALL(readlinkat),
    CALL(recvfrom),
    CALL(recvmsg),
    CALL(rseq),
    CALL(rt_sigaction),
    CALL(rt_sigpending),
    CALL(rt_sigprocmask),
    CALL(rt_sigtimedwait),
    CALL(rt_tgsigqueueinfo),
    CALL(sched_getaffinity),
    CALL(sched_setaffinity),
    CALL(sched_yield),
    CALL(semctl),
    CALL(semop),
    CALL(sendmsg),
    CALL(sendto),
    with(CALL(setsockopt), 1, socket_level),
    CALL(shmctl),
    with(CALL(socket), 0, socket_family),
    CALL(stat),
    CALL(tgkill),
    CALL(timer_gettime),
    CALL(unlink),
    dispensable(CALL(userfaultfd)),
    CALL(utimensat),
    dispensable(CALL(vmsplice)),
    CALL(wait4),
    CALL(write),
};

constexpr AgentCall at_end[] = {
    CALL(close),  with(CALL(futex), 1, futex_operations),
    CALL(gettid), CALL(munmap),
    CALL(read),   CALL(rt_sigreturn),
    CALL(write),
};

constexpr AgentCall between[] = {with(CALL(seccomp), 0, filter_operation)};

#undef CALL

bool passes(std::span<const sock_filter> filter, const AgentCall &call, const PartlyKnownCall &made)
{
    const unsigned good = answer_allows | (call.is_dispensable ? answer_refuses : 0);
    return (possible_answers(filter, made) & ~good) == 0;
}

bool passes(std::span<const sock_filter> filter, const AgentCall &call)
{
    PartlyKnownCall made{static_cast<uint32_t>(call.number)};
    if (call.known_argument < 0)
        return passes(filter, call, made);
    return std::ranges::all_of(call.values, [&](uint64_t value) {
        made.arguments[static_cast<size_t>(call.known_argument)] = value;
        return passes(filter, call, made);
    });
}

} // namespace

std::span<const AgentCall> agent_calls()
{
    return of_agent;
}

std::span<const AgentCall> calls_after_filters()
{
    return at_end;
}

std::span<const AgentCall> calls_between_filters()
{
    return between;
}

const AgentCall *first_stopped(std::span<const sock_filter> filter,
                               std::span<const AgentCall> calls)
{
    const auto found =
        std::ranges::find_if(calls, [&](const AgentCall &call) { return !passes(filter, call); });
    return found != calls.end() ? &*found : nullptr;
}

} // namespace cryo::capture
