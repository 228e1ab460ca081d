// SPDX-License-Identifier: Apache-2.0
// Interposes functions of the C library, so that a program that blocks, takes or resets "all
// signals" keeps the checkpoint signal unblocked and its handler installed. To the program it
// behaves as a signal that nobody ever sends; if the program wants that very one, it gets it, and
// Cryo takes another (signal_choice.cpp). None of these is called often; a thread that bypasses
// them by a raw system call is named at the checkpoint.
//
// This is ordinary code, called by the program; but most of these functions may be called in signal
// handlers, so it is async-signal-safe.
#include "agent/interposed.hpp"
#include "agent/signal_choice.hpp"
#include "agent/timed_wait.hpp"
#include "sys/raw.hpp"

#include <bit>
#include <csignal>
#include <cstring>
#include <pthread.h>
#include <sys/signalfd.h>
#include <sys/single_threaded.h>
#include <ucontext.h>

using cryo::agent::state;

// The C library's own, for the agent's own use: another library may stand in front of sigaction().
extern "C" int __sigaction(int, const struct sigaction *, struct sigaction *) noexcept;

namespace cryo::agent {

namespace {

using Handler = void (*)(int);
using SetHandler = Handler (*)(int, Handler);
using SetMask = int (*)(int, const sigset_t *, sigset_t *);

struct {
    SetHandler signal, sysv_signal, sigset;
    int (*sigaction)(int, const struct sigaction *, struct sigaction *);
    SetMask sigprocmask, pthread_sigmask;
    int (*signalfd)(int, const sigset_t *, int);
    int (*sigignore)(int);
    int (*sigsuspend)(const sigset_t *);
    int (*sigwait)(const sigset_t *, int *);
    int (*sigtimedwait)(const sigset_t *, siginfo_t *, const timespec *);
    int (*setsigmask)(pthread_attr_t *, const sigset_t *);
} real;

// The action that the program believes it has set for the checkpoint signal.
struct sigaction believed;
// Signals whose handlers' masks contained the checkpoint signal.
std::atomic<uint64_t> stripped;
// Signals whose handlers run on the thread's alternate stack.
std::atomic<uint64_t> elsewhere;
// Signals that some thread has ever blocked; and whether, in a single-threaded program, the
// thread's last call blocked the checkpoint signal.
std::atomic<uint64_t> ever_blocked;
bool only_thread_blocks_ours;

constexpr uint64_t bit(int signal)
{
    return uint64_t(1) << (signal - 1);
}

bool is_ours(int signal)
{
    return signal == state.signal && signal != 0;
}

bool has_ours(const sigset_t *set)
{
    return set != nullptr && state.signal != 0 && sigismember(set, state.signal) == 1;
}

sigset_t without_ours(const sigset_t *set)
{
    sigset_t rest = *set;
    sigdelset(&rest, state.signal);
    return rest;
}

// What the kernel gets for the program's set: Cryo's signal is not in it. `rest` has room for that.
const sigset_t *for_kernel(const sigset_t *set, sigset_t &rest)
{
    if (!has_ours(set))
        return set;
    rest = without_ours(set);
    return &rest;
}

Handler believe(Handler handler)
{
    const Handler before = believed.sa_handler;
    believed = {};
    believed.sa_handler = handler;
    return before;
}

bool is_use(Handler handler)
{
    return handler != SIG_DFL && handler != SIG_IGN;
}

bool wants_alternate_stack(const struct sigaction &action)
{
    return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN &&
           (action.sa_flags & SA_ONSTACK) != 0;
}

// A program that installs nearly all handlers this way runs code on stacks without room for
// handlers, as Go does; it skips some signals that it takes for the C library's. Otherwise our
// handler stays off the alternate stack, which may be as small as the program needs.
void choose_stack()
{
    constexpr int nearly_all = 24; // many more than the signals that report errors
    move_handler(wants_alternate_stack(believed) || std::popcount(elsewhere.load()) >= nearly_all);
}

uint64_t bits_of(const sigset_t &set)
{
    uint64_t bits = 0;
    memcpy(&bits, &set, sizeof(bits));
    return bits;
}

// A set that is neither all signals nor nearly all lists those that the program uses.
bool names_ours(const sigset_t *set)
{
    constexpr int most = 32;
    return has_ours(set) && std::popcount(bits_of(*set)) <= most;
}

// Gives handlers' masks what the program put there, except the new checkpoint signal.
void strip_again(int before)
{
    const uint64_t had_it = stripped.exchange(0);
    for (int number = 1; number <= max_signals; number++) {
        struct sigaction action;
        if (number == state.signal || __sigaction(number, nullptr, &action) != 0)
            continue;
        const bool has_it = sigismember(&action.sa_mask, state.signal) == 1;
        if (!has_it && (had_it & bit(number)) == 0)
            continue;
        if ((had_it & bit(number)) != 0)
            sigaddset(&action.sa_mask, before);
        if (has_it) {
            sigdelset(&action.sa_mask, state.signal);
            stripped.fetch_or(bit(number));
        }
        __sigaction(number, &action, nullptr);
    }
}

// The program gets the checkpoint signal, if Cryo can take another one that no thread blocks. If
// there are several threads and one may believe that it blocks ours, nothing changes.
void leave_ours()
{
    const int before = state.signal;
    const bool alone = __libc_single_threaded != 0;
    if (before == 0 || (!alone && (ever_blocked.load() & bit(before)) != 0) ||
        !leave_signal(alone ? 0 : ever_blocked.load()))
        return;
    remember_signal(state.signal);
    strip_again(before);
    if (believed.sa_handler != SIG_DFL)
        __sigaction(before, &believed, nullptr);
    believed = {};
    if (alone && only_thread_blocks_ours) {
        const uint64_t only = bit(before);
        sys::call(SYS_rt_sigprocmask, SIG_BLOCK, &only, nullptr, sizeof(only));
    }
    only_thread_blocks_ours = false;
    choose_stack();
}

void note_blocked(int how, const sigset_t &set)
{
    if (how != SIG_UNBLOCK)
        ever_blocked.fetch_or(bits_of(set));
    if (how == SIG_SETMASK || has_ours(&set))
        only_thread_blocks_ours = how != SIG_UNBLOCK && has_ours(&set);
}

int set_mask(SetMask next, int how, const sigset_t *set, sigset_t *old)
{
    if (set == nullptr)
        return next(how, set, old);
    if (how != SIG_UNBLOCK && names_ours(set))
        leave_ours();
    note_blocked(how, *set);
    if (how == SIG_UNBLOCK)
        return next(how, set, old);
    sigset_t rest;
    return next(how, for_kernel(set, rest), old);
}

// Of a set that the program takes signals from: if it names Cryo's, that becomes the program's.
const sigset_t *awaited(const sigset_t *set, sigset_t &rest)
{
    if (names_ours(set))
        leave_ours();
    return for_kernel(set, rest);
}

// The program uses all signals, also Cryo's, and no other is free: Cryo's handler calls the
// program's. That may be interrupted by itself, since our signal is never blocked.
bool run_believed(siginfo_t *info, void *frame)
{
    const struct sigaction action = believed;
    if (!is_use(action.sa_handler))
        return false;
    if ((action.sa_flags & SA_RESETHAND) != 0)
        believed.sa_handler = SIG_DFL;
    const uint64_t all = ~uint64_t(0);
    const uint64_t interrupted = bits_of(static_cast<const ucontext_t *>(frame)->uc_sigmask);
    const uint64_t mask = (interrupted | bits_of(action.sa_mask)) & ~bit(state.signal);
    sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &mask, nullptr, sizeof(mask));
    if ((action.sa_flags & SA_SIGINFO) != 0)
        action.sa_sigaction(state.signal, info, frame);
    else
        action.sa_handler(state.signal);
    sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &all, nullptr, sizeof(all));
    return true;
}

template <class F>
F known(F &function)
{
    return known_by(function, find_real_signal_functions);
}

} // namespace

void find_real_signal_functions()
{
    run_handler_of_program = run_believed;
    find(real.sigaction, "sigaction");
    find(real.sigprocmask, "sigprocmask");
    find(real.pthread_sigmask, "pthread_sigmask");
    find(real.signalfd, "signalfd");
    find(real.signal, "signal");
    find(real.sysv_signal, "__sysv_signal");
    find(real.sigset, "sigset");
    find(real.sigignore, "sigignore");
    find(real.sigsuspend, "sigsuspend");
    find(real.sigwait, "sigwait");
    find(real.sigtimedwait, "sigtimedwait");
    find(real.setsigmask, "pthread_attr_setsigmask_np");
}

} // namespace cryo::agent

using namespace cryo::agent;

extern "C" {

CRYO_INTERPOSED int sigaction(int number, const struct sigaction *action,
                              struct sigaction *old) noexcept
{
    if (is_ours(number) && action != nullptr && is_use(action->sa_handler))
        leave_ours();
    if (is_ours(number)) {
        const struct sigaction before = believed;
        if (action != nullptr) {
            believed = *action;
            choose_stack();
        }
        if (old != nullptr)
            *old = before;
        return 0;
    }
    const bool was_stripped =
        number >= 1 && number <= max_signals && (stripped.load() & bit(number)) != 0;
    struct sigaction changed;
    const bool strip = action != nullptr && has_ours(&action->sa_mask);
    if (strip) {
        changed = *action;
        changed.sa_mask = without_ours(&action->sa_mask);
    }
    const int result = known(real.sigaction)(number, strip ? &changed : action, old);
    if (result != 0)
        return result;
    if (old != nullptr && was_stripped)
        sigaddset(&old->sa_mask, state.signal);
    if (strip)
        stripped.fetch_or(bit(number));
    else if (action != nullptr)
        stripped.fetch_and(~bit(number));
    if (action != nullptr && wants_alternate_stack(*action))
        elsewhere.fetch_or(bit(number));
    else if (action != nullptr)
        elsewhere.fetch_and(~bit(number));
    if (action != nullptr)
        choose_stack();
    return result;
}

CRYO_INTERPOSED Handler signal(int number, Handler handler) noexcept
{
    if (is_ours(number) && is_use(handler))
        leave_ours();
    return is_ours(number) ? believe(handler) : known(real.signal)(number, handler);
}

CRYO_INTERPOSED Handler __sysv_signal(int number, Handler handler) noexcept
{
    if (is_ours(number) && is_use(handler))
        leave_ours();
    return is_ours(number) ? believe(handler) : known(real.sysv_signal)(number, handler);
}

CRYO_INTERPOSED Handler sigset(int number, Handler handler) noexcept
{
    if (is_ours(number) && is_use(handler))
        leave_ours();
    return is_ours(number) ? believe(handler) : known(real.sigset)(number, handler);
}

CRYO_INTERPOSED int sigignore(int number) noexcept
{
    if (!is_ours(number))
        return known(real.sigignore)(number);
    believe(SIG_IGN);
    return 0;
}

CRYO_INTERPOSED int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) noexcept
{
    return set_mask(known(real.pthread_sigmask), how, set, old);
}

CRYO_INTERPOSED int sigprocmask(int how, const sigset_t *set, sigset_t *old) noexcept
{
    return set_mask(known(real.sigprocmask), how, set, old);
}

CRYO_INTERPOSED int sighold(int number) noexcept
{
    sigset_t one;
    sigemptyset(&one);
    return sigaddset(&one, number) == 0 ? sigprocmask(SIG_BLOCK, &one, nullptr) : -1;
}

CRYO_INTERPOSED int pthread_attr_setsigmask_np(pthread_attr_t *attribute, const sigset_t *set)
{
    if (set != nullptr)
        ever_blocked.fetch_or(bits_of(*set));
    sigset_t rest;
    return known(real.setsigmask)(attribute, for_kernel(set, rest));
}

CRYO_INTERPOSED int sigsuspend(const sigset_t *set)
{
    sigset_t rest;
    return known(real.sigsuspend)(for_kernel(set, rest));
}

CRYO_INTERPOSED int sigwait(const sigset_t *set, int *number)
{
    sigset_t rest;
    return known(real.sigwait)(awaited(set, rest), number);
}

CRYO_INTERPOSED int sigtimedwait(const sigset_t *set, siginfo_t *info, const timespec *limit)
{
    sigset_t rest;
    set = awaited(set, rest);
    if (!TimedWait::takes(limit))
        return known(real.sigtimedwait)(set, info, limit);
    TimedWait wait(*limit);
    return known(real.sigtimedwait)(set, info, wait.limit());
}

CRYO_INTERPOSED int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
    return sigtimedwait(set, info, nullptr);
}

CRYO_INTERPOSED int signalfd(int fd, const sigset_t *set, int flags) noexcept
{
    sigset_t rest;
    return known(real.signalfd)(fd, awaited(set, rest), flags);
}

} // extern "C"
