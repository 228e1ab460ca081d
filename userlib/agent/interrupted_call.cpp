// SPDX-License-Identifier: Apache-2.0
//
// System calls that the checkpoint interrupted. Those that signal(7) restarts after a handler are
// restarted by the kernel. Of those that return EINTR instead, many can be entered again without
// the program noticing, and are:
//
//   for ever:    pause sigsuspend sigtimedwait poll epoll_wait futex msgsnd msgrcv semop
//   until then:  clock_nanosleep(TIMER_ABSTIME), futex with an absolute time
//   time left:   select pselect ppoll (the kernel updates their timeout), nanosleep and
//                clock_nanosleep where the caller takes the remaining time
//   time noted:  sigtimedwait semtimedop futex io_getevents, if the limit is in a TimedWait
//   anew:        calls on sockets with a time limit; with a SocketWait, the caller instead
//                continues with the time that is left
//
// The rest return EINTR as after any handled signal: their remaining time is unknown. If the agent
// is preloaded, it replaces the program's calls by ones whose remaining time is known
// (interposed_waits.cpp).
//
// A call that has moved a part of its data (a write into a pipe) returns the size of that part. The
// handler notes that, and the caller goes on with the rest (cut_call.hpp).
//
// A restarted call has a gap: a signal for the program that arrives between the interruption and
// the return from the handler is delivered before the call is entered again, so a handler without
// SA_RESTART interrupts nothing. If such a signal is pending, the call returns EINTR, as it would
// have done without the checkpoint.
//
// The number of the call is no longer in the frame (rax has the result). It is taken from the
// instruction before the `syscall`, where compilers load it as a constant. Our own syscall(2) keeps
// it in a register. glibc 2.41 makes cancellable calls in two functions that get the number as an
// argument; there it is found on the stack.
#include "agent/agent.hpp"
#include "agent/cut_call.hpp"
#include "agent/socket_wait.hpp"
#include "agent/timed_wait.hpp"
#include "sys/clock.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <linux/futex.h>
#include <time.h>
#include <ucontext.h>

namespace cryo::agent {

constinit std::atomic<bool> any_socket_limits;
constinit std::atomic<uint32_t> cut_calls[cut_words];

namespace {

constexpr greg_t interrupted = -EINTR;
constexpr long unknown = -1; // number of a call

struct Call {
    greg_t *regs;
    long number;
    greg_t arg(int i) const
    {
        constexpr int order[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
        return regs[order[i]];
    }
};

long word_at(greg_t address)
{
    long word;
    memcpy(&word, reinterpret_cast<const void *>(address), sizeof(word));
    return word;
}

// glibc's __syscall_cancel_arch, whose stack pointer this is, overwrites the number it was given.
// Its caller got the number on the stack from its own caller:
//     48 8b 74 24 NN            mov N(%rsp), %rsi
//     (4d|4c|49|48) 89 XX …     mov %register, %register
//     e8 NN NN NN NN            call
long number_of_caller(greg_t stack)
{
    constexpr unsigned char load[] = {0x48, 0x8b, 0x74, 0x24};
    const auto *at = reinterpret_cast<const unsigned char *>(word_at(stack)) - 5;
    if (at[0] != 0xe8)
        return -1;
    for (int moves = 0; moves < 5 && at[-2] == 0x89 && (at[-3] & 0xfa) == 0x48; moves++)
        at -= 3;
    at -= 5;
    if (memcmp(at, load, sizeof(load)) != 0)
        return -1;
    return word_at(stack + static_cast<greg_t>(sizeof(void *)) + at[4]);
}

// As above; −1: the call is not in either of glibc's two functions.
long number_on_stack(const unsigned char *syscall, greg_t stack)
{
    constexpr unsigned char load[] = {0x48, 0x8b, 0x44, 0x24};        // mov N(%rsp), %rax
    constexpr unsigned char store[] = {0x4c, 0x89, 0x5c, 0x24, 0x08}; // mov %r11, 8(%rsp)
    constexpr long most = 1024;
    long number = -1;
    if (memcmp(syscall - 5, load, sizeof(load)) == 0)
        number = word_at(stack + syscall[-1]);
    else if (memcmp(syscall - 5, store, sizeof(store)) == 0)
        number = number_of_caller(stack);
    return number < most ? number : -1;
}

// The number of the interrupted call, or −1 when the code is not of a known form:
//     b8 NN NN NN NN      mov $NN, %eax              (or 31 c0, xor %eax, %eax, for read)
//     [48] 8b XX 24 XX    mov N(%rsp), %register     (or nothing)
//     0f 05               syscall
long number_before(const greg_t *regs)
{
    const greg_t rip = regs[REG_RIP];
    if (rip == reinterpret_cast<greg_t>(cryo_syscall_end))
        return regs[REG_RBX];
    const auto *end = reinterpret_cast<const unsigned char *>(rip) - 2;
    if (end[0] != 0x0f || end[1] != 0x05)
        return -1;
    if (const long number = number_on_stack(end, regs[REG_RSP]); number >= 0)
        return number;
    const bool load = end[-4] == 0x8b && end[-2] == 0x24;
    const bool wide = load && (end[-5] & 0xf8) == 0x48;
    for (const int gap : {0, load ? 4 : 0, wide ? 5 : 0}) {
        const unsigned char *move = end - gap - 5;
        if (move[0] == 0xb8 && move[3] == 0 && move[4] == 0)
            return move[1] | move[2] << 8;
        if (move[3] == 0x31 && move[4] == 0xc0)
            return SYS_read;
    }
    return -1;
}

// The TimedWait of the program's call, if there is one.
TimedWait *noted(const Call &call)
{
    int where;
    switch (call.number) {
    case SYS_rt_sigtimedwait:
        where = 2;
        break;
    case SYS_futex:
    case SYS_semtimedop:
        where = 3;
        break;
    case SYS_io_getevents:
    case SYS_io_pgetevents:
        where = 4;
        break;
    default:
        return nullptr;
    }
    return TimedWait::of(call.arg(where), call.regs[REG_RSP]);
}

// The socket option that limits the call; 0: none.
int socket_option(long number)
{
    switch (number) {
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_accept:
    case SYS_accept4:
        return SO_RCVTIMEO;
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_sendfile:
    case SYS_connect:
        return SO_SNDTIMEO;
    default:
        return 0;
    }
}

SocketWait *noted_socket(const Call &call)
{
    if (socket_option(call.number) == 0 || !any_socket_limits.load())
        return nullptr;
    return SocketWait::of(static_cast<int>(call.arg(0)), call.regs[REG_RSP]);
}

bool can_enter_again(const Call &call)
{
    if (noted(call) != nullptr)
        return true;
    switch (call.number) {
    case SYS_pause:
    case SYS_rt_sigsuspend:
    case SYS_msgrcv:
    case SYS_msgsnd:
    case SYS_semop:
    case SYS_select:
    case SYS_pselect6:
    case SYS_ppoll:
        return true;
    case SYS_rt_sigtimedwait:
        return call.arg(2) == 0;
    case SYS_semtimedop:
        return call.arg(3) == 0;
    case SYS_io_getevents:
    case SYS_io_pgetevents:
        return call.arg(4) == 0;
    case SYS_poll:
        return static_cast<int>(call.arg(2)) < 0;
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
        return static_cast<int>(call.arg(3)) < 0;
    case epoll_pwait2_number:
        return call.arg(3) == 0;
    case SYS_futex: {
        const auto op = static_cast<int>(call.arg(1)) & FUTEX_CMD_MASK;
        return op == FUTEX_WAIT_BITSET || (op == FUTEX_WAIT && call.arg(3) == 0);
    }
    case SYS_nanosleep:
        return call.arg(1) != 0;
    case SYS_clock_nanosleep:
        return (call.arg(1) & TIMER_ABSTIME) != 0 || call.arg(3) != 0;
    default: {
        const int option = socket_option(call.number);
        return option != 0 && socket_limit(static_cast<int>(call.arg(0)), option) > 0;
    }
    }
}

// A sleep continues with the rest that the kernel reported.
void take_time_left(const Call &call)
{
    if (call.number == SYS_nanosleep)
        call.regs[REG_RDI] = call.arg(1);
    else if (call.number == SYS_clock_nanosleep && (call.arg(1) & TIMER_ABSTIME) == 0)
        call.regs[REG_RDX] = call.arg(3);
    else if (TimedWait *wait = noted(call); wait != nullptr)
        wait->go_on(sys::monotonic_ns());
}

// Calls that the kernel restarts if the handler has SA_RESTART, and else ends with EINTR.
bool ends_by_signal(long number)
{
    switch (number) {
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_preadv2:
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_pwritev2:
    case SYS_splice:
    case SYS_tee:
    case SYS_vmsplice:
    case SYS_sendfile:
    case SYS_open:
    case SYS_openat:
    case SYS_openat2:
    case SYS_creat:
    case SYS_ioctl:
    case SYS_fcntl:
    case SYS_flock:
    case SYS_futex:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_mq_timedsend:
    case SYS_mq_timedreceive:
    case SYS_getrandom:
        return true;
    default:
        return false;
    }
}

// The kernel has set the thread back to the `syscall` instruction, to execute it again.
bool set_back(const greg_t *regs)
{
    const auto *code = reinterpret_cast<const unsigned char *>(regs[REG_RIP]);
    return regs[REG_RAX] >= 0 && ends_by_signal(regs[REG_RAX]) && code[0] == 0x0f &&
           code[1] == 0x05;
}

// The kernel reads the mask before it finds that there is nothing to do with it.
bool can_read(greg_t at)
{
    constexpr int nothing = -1;
    return sys::call(SYS_rt_sigprocmask, nothing, at, nullptr, sizeof(uint64_t)) == -EINVAL;
}

// The call may have moved only a part of what it was to move, and its function goes on with the
// rest (cut_call.hpp). The thread may stand anywhere, also where code can only be executed. Some of
// the C library's functions have more code than is known here between the number and `syscall`.
bool is_cut(greg_t *regs)
{
    const auto *end = reinterpret_cast<const unsigned char *>(regs[REG_RIP]) - 2;
    if (regs[REG_RAX] <= 0 || !can_read(regs[REG_RIP] - 8) || !can_read(regs[REG_RIP] - 16) ||
        end[0] != 0x0f || end[1] != 0x05)
        return false;
    const Call call = {regs, number_before(regs)};
    switch (call.number) {
    case SYS_writev:
    case SYS_sendmsg:
        return true;
    case SYS_write:
    case SYS_sendto:
    case SYS_recvfrom:
    case unknown:
        return regs[REG_RAX] < call.arg(2);
    default:
        return false;
    }
}

// The mask of deliverable signals. Another pending checkpoint signal is not the program's: it
// interrupts no call, but finds the thread about to enter the call again.
uint64_t deliverable(const ucontext_t &context)
{
    uint64_t pending = 0;
    uint64_t blocked = 0;
    memcpy(&blocked, &context.uc_sigmask, sizeof(blocked));
    sys::call(SYS_rt_sigpending, &pending, sizeof(pending));
    return pending & ~blocked & ~(uint64_t(1) << (state.signal - 1));
}

// True if a signal is pending whose handler ends calls. If it is pending for the process, it is
// redirected to this thread, as no other may take it once this one's call has ended because of it.
// (Not a real-time signal: that would lose its place in the queue.)
bool interrupting_signal_waits(const ucontext_t &context)
{
    constexpr uint64_t restart = SA_RESTART;
    constexpr int first_real_time = 32;
    const uint64_t pending = deliverable(context);
    for (int signal = 1; pending != 0 && signal <= max_signals; signal++) {
        const uint64_t only = 1UL << (signal - 1);
        SignalAction action = {};
        if ((pending & only) == 0 ||
            sys::failed(sys::call(SYS_rt_sigaction, signal, nullptr, &action, 8)) ||
            action.handler <= 1 || (action.flags & restart) != 0)
            continue;
        if (signal >= first_real_time)
            return true;
        siginfo_t info;
        const timespec at_once = {};
        if (sys::call(SYS_rt_sigtimedwait, &only, &info, &at_once, 8) == signal &&
            !sys::failed(sys::call(SYS_rt_tgsigqueueinfo, sys::call(SYS_getpid),
                                   sys::call(SYS_gettid), signal, &info)))
            return true;
    }
    return false;
}

// A pending signal that the program handles would have ended the call anyway. A default action ends
// no call: it ends or stops the process, or does nothing (SIGCHLD).
bool handler_waits(const ucontext_t &context)
{
    const uint64_t pending = deliverable(context);
    for (int signal = 1; pending != 0 && signal <= max_signals; signal++) {
        SignalAction action = {};
        if ((pending >> (signal - 1) & 1) != 0 &&
            !sys::failed(sys::call(SYS_rt_sigaction, signal, nullptr, &action, 8)) &&
            action.handler > 1)
            return true;
    }
    return false;
}

} // namespace

void keep_time_left(void *frame)
{
    greg_t *regs = static_cast<ucontext_t *>(frame)->uc_mcontext.gregs;
    if (regs[REG_RAX] != interrupted)
        return;
    const Call call = {regs, number_before(regs)};
    if (TimedWait *wait = noted(call); wait != nullptr)
        wait->keep_left(sys::monotonic_ns());
    else if (SocketWait *of_socket = noted_socket(call); of_socket != nullptr)
        of_socket->note_interruption();
}

bool resume_call(void *frame)
{
    auto &context = *static_cast<ucontext_t *>(frame);
    greg_t *regs = context.uc_mcontext.gregs;
    if (set_back(regs)) {
        if (!interrupting_signal_waits(context))
            return true;
        regs[REG_RAX] = interrupted;
        regs[REG_RIP] += 2;
        return false;
    }
    if (is_cut(regs) && !handler_waits(context)) {
        cuts_of(static_cast<int>(regs[REG_RDI]), static_cast<uintptr_t>(regs[REG_RSI]))
            .fetch_add(1, std::memory_order_relaxed);
        return true;
    }
    if (regs[REG_RAX] != interrupted)
        return false;
    const Call call = {regs, number_before(regs)};
    if (call.number < 0 || !can_enter_again(call) || handler_waits(context))
        return false;
    if (SocketWait *wait = noted_socket(call); wait != nullptr) {
        wait->let_go_on();
        return false;
    }
    take_time_left(call);
    regs[REG_RAX] = call.number;
    regs[REG_RIP] -= 2;
    return true;
}

} // namespace cryo::agent
