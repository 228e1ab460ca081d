// SPDX-License-Identifier: Apache-2.0
//
// The process that tries puts on a filter of its own that hands every call to us as its listener
// (SECCOMP_RET_USER_NOTIF). Of several filters the strictest decides, and of equals the newest. So
// we are asked what the filters here let pass (ALLOW, LOG, a tracer or another listener included),
// and give an answer that no filter can give. What they forbid, they answer themselves.
//
// Where no listener can be had, the same answer of the filter means ENOSYS, which then counts as
// passing though a filter may have given it.
#include "look/tried_calls.hpp"

#include "base/fd.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <linux/seccomp.h>
#include <new>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

constexpr long passed_answer = 0x43527950;

// What the two processes share.
struct Progress {
    int listener = -1; // a descriptor of both
    bool is_ready = false;
    bool has_passed = false;
    size_t tried = 0; // calls, with the present one
};

long make_32_bit(const FullCall &call)
{
    long result = 0;
    const auto sixth = static_cast<long>(call.arguments[5]);
    asm volatile("mov %%rbp, %%r12\n\t"
                 "mov %[sixth], %%rbp\n\t"
                 "int $0x80\n\t"
                 "mov %%r12, %%rbp"
                 : "=a"(result)
                 : "a"(static_cast<long>(call.number)), "b"(call.arguments[0]),
                   "c"(call.arguments[1]), "d"(call.arguments[2]), "S"(call.arguments[3]),
                   "D"(call.arguments[4]), [sixth] "r"(sixth)
                 : "r8", "r9", "r10", "r11", "r12", "memory");
    return result;
}

long make(const FullCall &call)
{
    if (call.is_32_bit)
        return make_32_bit(call);
    const auto &a = call.arguments;
    return sys::call(call.number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// No call is made from the filter on, but those that are tried.
[[noreturn]] void try_from(std::span<const FullCall> calls, volatile Progress &progress,
                           bool listens)
{
    for (const int number : {SIGSYS, SIGILL, SIGSEGV})
        signal(number, SIG_DFL);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); // it will crash
    sock_filter rule = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    const sock_fprog program = {1, &rule};
    long made = sys::call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!sys::failed(made))
        made = listens ? sys::call(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                   SECCOMP_FILTER_FLAG_NEW_LISTENER, &program)
                       : sys::call(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
    if (sys::failed(made))
        __builtin_trap();
    if (listens)
        progress.listener = static_cast<int>(made);
    progress.is_ready = true;
    const long passed = listens ? passed_answer : -ENOSYS;
    while (!progress.has_passed && progress.tried < calls.size()) {
        const size_t next = progress.tried;
        progress.tried = next + 1;
        if (make(calls[next]) == passed)
            progress.has_passed = true;
    }
    __builtin_trap(); // ends it without a call
}

void answer(int listener)
{
    seccomp_notif asked = {};
    seccomp_notif_resp answer = {};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0)
        return;
    answer.id = asked.id;
    answer.val = passed_answer;
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

// Until the process has ended.
void listen(int process, const volatile Progress &progress)
{
    // The process cannot tell us when it has its filter, which hands us that call, too.
    constexpr int moment_ms = 1;
    pollfd watched[] = {{process, POLLIN, 0}, {-1, POLLIN, 0}};
    while (watched[0].revents == 0) {
        watched[1].fd = progress.listener;
        const int timeout = watched[1].fd >= 0 ? -1 : moment_ms;
        if (poll(watched, 2, timeout) > 0 && (watched[1].revents & POLLIN) != 0)
            answer(watched[1].fd);
    }
}

Result<void> let_try(std::span<const FullCall> calls, volatile Progress &progress, bool listens)
{
    int process = -1;
    // With our table of descriptors, in which its listener appears.
    const long child =
        sys::call(SYS_clone, CLONE_FILES | CLONE_PIDFD | SIGCHLD, nullptr, &process, nullptr, 0);
    if (child == 0)
        try_from(calls, progress, listens);
    if (sys::failed(child))
        return Error::from_errno("starting a process that tries out the seccomp filters here",
                                 static_cast<int>(-child));
    listen(process, progress);
    close(process);
    while (waitpid(static_cast<pid_t>(child), nullptr, 0) < 0 && errno == EINTR)
        ;
    if (progress.listener >= 0)
        close(progress.listener);
    progress.listener = -1;
    return {};
}

} // namespace

Result<std::optional<FullCall>> first_that_passes(std::span<const FullCall> calls)
{
    if (calls.empty())
        return std::optional<FullCall>();
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0)
        return std::optional<FullCall>(calls.front());
    void *const shared =
        mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return Error::from_errno("no memory to try out the seccomp filters here", errno);
    volatile Progress &progress = *new (shared) Progress;
    Result<void> tried;
    bool listens = true;
    while (tried && !progress.has_passed && progress.tried < calls.size()) {
        const size_t before = progress.tried;
        progress.is_ready = false;
        tried = let_try(calls, progress, listens);
        if (!tried || progress.is_ready)
            continue;
        if (!listens)
            tried = Error(EPERM, "the seccomp filters here could not be tried out");
        listens = false;
        progress.tried = before;
    }
    const std::optional<FullCall> passing =
        progress.has_passed ? std::optional<FullCall>(calls[progress.tried - 1]) : std::nullopt;
    munmap(shared, sizeof(Progress));
    return tried ? Result<std::optional<FullCall>>(passing) : tried.error();
}

} // namespace cryo::capture
