// SPDX-License-Identifier: Apache-2.0
// The checkpoint signal is one that the program does not use. If the program turns out to want it,
// Cryo moves to another, and publishes the number at the door for other processes.
#include "agent/signal_choice.hpp"

#include "agent/callbacks.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>

namespace cryo::agent {

namespace {

constexpr int first_real_time = 34; // the C library reserves the first two
constexpr uint64_t standard_action = 0;

uint64_t bit(int signal)
{
    return uint64_t(1) << (signal - 1);
}

// The highest one with the default action that is neither pending nor blocked in this thread.
int find_unused(uint64_t used)
{
    uint64_t blocked = 0;
    uint64_t pending = 0;
    sys::call(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &blocked, sizeof(blocked));
    sys::call(SYS_rt_sigpending, &pending, sizeof(pending));
    for (int signal = max_signals; signal >= first_real_time; signal--) {
        SignalAction action = {};
        if (signal != state.signal && ((blocked | pending | used) & bit(signal)) == 0 &&
            !sys::failed(
                sys::call(SYS_rt_sigaction, signal, nullptr, &action, sizeof(action.mask))) &&
            action.handler == standard_action)
            return signal;
    }
    return 0;
}

bool is_asked()
{
    pollfd look = {state.listener, POLLIN, 0};
    return sys::call(SYS_poll, &look, 1, 0) > 0 && (look.revents & POLLIN) != 0;
}

// state.active keeps other threads from leading a checkpoint meanwhile: they leave it to this one.
void take(int signal)
{
    const int before = state.signal;
    set_handler(signal, on_signal, nullptr);
    state.signal = signal;
    sys::call(SYS_fcntl, state.listener, F_SETSIG, signal);
    renew_watched();
    tell_signal_at_door();
    // A connection or an arrival may have raised the old signal before. To ignore a signal discards
    // one that is pending: its default action would end the program, and a handler of the program's
    // would not know it. leave_signal() looks for what it would have announced.
    constexpr uint64_t ignore = 1; // SIG_IGN
    const SignalAction ignored = {ignore, 0, 0, 0};
    sys::call(SYS_rt_sigaction, before, &ignored, nullptr, sizeof(ignored.mask));
    const SignalAction standard = {};
    sys::call(SYS_rt_sigaction, before, &standard, nullptr, sizeof(standard.mask));
}

} // namespace

bool leave_signal(uint64_t used)
{
    // A lodger's threads block unknown signals.
    if (state.signal == 0 || sys::call(SYS_getpid) != state.pid || has_lodger())
        return false;
    uint32_t idle = 0;
    while (!state.active.compare_exchange_strong(idle, 1)) {
        if (first_client() != nullptr)
            return false;           // this may be a callback, for which the checkpoint waits
        sys::call(SYS_sched_yield); // a checkpoint stops us here
        idle = 0;
    }
    const int unused = find_unused(used);
    if (unused != 0)
        take(unused);
    state.active.store(0, std::memory_order_release);
    if (is_asked())
        call_thread(static_cast<int>(sys::call(SYS_gettid)));
    if (unused != 0)
        look_at_watched();
    return unused != 0;
}

} // namespace cryo::agent
