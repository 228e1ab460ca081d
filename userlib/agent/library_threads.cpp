// SPDX-License-Identifier: Apache-2.0
// glibc keeps helper threads of its own (for SIGEV_THREAD timers, asynchronous I/O, …) that block
// every signal a program may use, so the checkpoint signal never reaches them. They only take
// glibc's internal signal, by which it changes the ids of all threads. During a stop our handler
// precedes glibc's, and the signal carries data that glibc would ignore.
//
// Runtimes that block signals by raw system calls leave that signal unblocked, too: a Go thread
// that only waits for requested signals blocks the checkpoint signal for good.
#include "agent/callbacks.hpp"
#include "agent/hearing.hpp"
#include "sys/raw.hpp"

#include <csignal>
#include <time.h>

namespace cryo::agent {

namespace {

constexpr uint64_t bit(int signal)
{
    return uint64_t(1) << (signal - 1);
}

using Handler = void (*)(int, siginfo_t *, void *);

void on_knock(int signal, siginfo_t *info, void *frame)
{
    if (info->si_code != SI_QUEUE || info->si_value.sival_ptr != &state) {
        if (state.library_action.handler > 1) // glibc's own use of the signal
            reinterpret_cast<Handler>(state.library_action.handler)(signal, info, frame);
        return;
    }
    // Take the pending checkpoint signal, which would stay pending for ever.
    const uint64_t ours = bit(state.signal);
    const timespec now = {};
    sys::call(SYS_rt_sigtimedwait, &ours, nullptr, &now, sizeof(ours));
    const uint32_t generation = state.generation.load(std::memory_order_acquire);
    const auto self = static_cast<int>(sys::call(SYS_gettid));
    // The lodger's own C library has such threads, too: a handler that runs on a stack of the
    // lodger's is in one of those, not in a program thread.
    if (is_lodgers_address(reinterpret_cast<uint64_t>(frame))) {
        pass_over(self);
        resume_call(frame);
        return;
    }
    const bool parked = state.active.load(std::memory_order_acquire) != 0 && may_park() &&
                        park(self, frame, generation);
    const bool enters_call = resume_call(frame);
    if (parked)
        tell_gone(enters_call);
}

bool send_knock(int tid)
{
    if (!state.knocked) {
        if (sys::failed(set_handler(library_signal, on_knock, &state.library_action)))
            return false;
        state.knocked = true;
    }
    siginfo_t info = {};
    info.si_signo = library_signal;
    info.si_code = SI_QUEUE;
    info.si_value.sival_ptr = &state;
    return !sys::failed(
        sys::call(SYS_rt_tgsigqueueinfo, sys::call(SYS_getpid), tid, library_signal, &info));
}

} // namespace

bool knock_at_library_thread(int tid)
{
    const uint64_t blocked = status_of(tid).blocked;
    if ((blocked & bit(state.signal)) == 0 || (blocked & bit(library_signal)) != 0)
        return false;
    // If pending in a thread that executes another program, the signal would end that.
    state.knocking.store(1);
    const bool sent = state.deaf.load() == 0 && send_knock(tid);
    state.knocking.store(0);
    return sent;
}

void stop_knocking()
{
    if (!state.knocked)
        return;
    sys::call(SYS_rt_sigaction, library_signal, &state.library_action, nullptr,
              sizeof(state.library_action.mask));
    state.knocked = false;
}

} // namespace cryo::agent
