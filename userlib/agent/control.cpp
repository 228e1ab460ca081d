// SPDX-License-Identifier: Apache-2.0
// The control socket and the checkpoint signal: how a request reaches the program.
#include "agent/callbacks.hpp"
#include "agent/inherited.hpp"
#include "agent/kept_numbers.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/socket.h>
#include <ucontext.h>

namespace cryo::agent {

namespace {

// Allowed are root, and this process's user if all of the process's user ids are the same.
bool peer_allowed(int connection)
{
    ucred peer = {};
    socklen_t size = sizeof(peer);
    uid_t real = 0;
    uid_t effective = 0;
    uid_t saved = 0;
    if (sys::failed(sys::call(SYS_getsockopt, connection, SOL_SOCKET, SO_PEERCRED, &peer, &size)) ||
        sys::failed(sys::call(SYS_getresuid, &real, &effective, &saved)))
        return false;
    return peer.uid == 0 || (peer.uid == real && peer.uid == effective && peer.uid == saved);
}

bool connection_waits()
{
    pollfd look = {state.listener, POLLIN, 0};
    return sys::call(SYS_poll, &look, 1, 0) > 0 && (look.revents & POLLIN) != 0;
}

// No descriptor is left for a connection, maybe for good: closing the listener fails the waiters.
void turn_away()
{
    forget_control();
    open_control();
}

// Accepts connections until none is left. If another thread is doing so, leaves them to it; that
// thread therefore looks again when it is done.
void answer(void *frame)
{
    if (state.listener == 0)
        return; // meant for the previous program in this process
    do {
        uint32_t idle = 0;
        if (!state.active.compare_exchange_strong(idle, 1))
            return;
        const auto connection = static_cast<int>(accept_connection());
        if (connection >= 0 && peer_allowed(connection)) {
            // Call gettid each time: a restarted thread that returns here may have another id.
            begin_round(connection, static_cast<int>(sys::call(SYS_gettid)), frame);
            continue;
        }
        if (connection >= 0)
            give_up(connection);
        if (connection == -EMFILE)
            turn_away();
        state.active.store(0, std::memory_order_release);
        release_threads();
    } while (connection_waits());
}

} // namespace

// One checkpoint, seen by the thread that leads it. The frame stays small: it is saved, and after a
// restart this function goes on as if cryo_context_save had returned a second time. The leader goes
// last: what the program does next in this thread may be a signal to a thread that it knows to be
// asleep in a system call. (It does not wait if callbacks have yet to end.)
void lead(int self, void *frame)
{
    Slot &slot = state.slots[max_threads];
    fill_facts(slot.facts, self, frame);
    const bool restarted = cryo_context_save(&slot.facts.context) != 0;
    if (restarted) {
        renew_client();
        after_restart();
    } else {
        serve_round();
        tell_lodger_to_go_on();
    }
    state.gone.store(0, std::memory_order_release);
    const bool over = end_image(restarted);
    if (restarted)
        over ? tell_released() : tell_alive();
    release_threads();
    if (!over)
        return;
    await_gone();
    if (restarted) {
        tell_alive();
        tell_end(0);
    }
}

bool (*run_handler_of_program)(siginfo_t *info, void *frame);

long call_thread(int tid)
{
    siginfo_t info = {};
    info.si_signo = state.signal;
    info.si_code = SI_QUEUE;
    info.si_pid = static_cast<int>(sys::call(SYS_getpid));
    info.si_value.sival_ptr = &state;
    return sys::call(SYS_rt_tgsigqueueinfo, info.si_pid, tid, state.signal, &info);
}

namespace {

// The sender of the signal: a thread of this process; a checkpointer, to a program that it found
// stopped; the kernel, because of a connection; or anybody whose signal is for the program.
enum class Caller { thread, outside, kernel, program };

Caller caller_of(const siginfo_t &info)
{
    if (info.si_code == SI_QUEUE && info.si_value.sival_ptr == &state)
        return Caller::thread;
    if (info.si_code == SI_TKILL && info.si_pid != static_cast<int>(sys::call(SYS_getpid)))
        return Caller::outside;
    return info.si_code > 0 ? Caller::kernel : Caller::program;
}

// The kernel's signal may be about a descriptor of the program's.
bool is_for_program(Caller caller, const siginfo_t &info)
{
    return caller == Caller::program ||
           (caller == Caller::kernel && info.si_fd != state.listener && !connection_waits());
}

} // namespace

void on_signal(int, siginfo_t *info, void *frame)
{
    keep_time_left(frame);
    const auto self = static_cast<int>(sys::call(SYS_gettid));
    const uint32_t barrier = round.barrier.load(std::memory_order_acquire);
    bool parked = false;
    const Caller caller = caller_of(*info);
    if (caller == Caller::thread || caller == Caller::outside) {
        // The order of these two reads matters: see release_threads().
        const uint32_t generation = state.generation.load(std::memory_order_acquire);
        if (take_part(self, frame, generation))
            parked = true;
        else if (state.active.load(std::memory_order_acquire) == 0)
            answer(frame); // a request that had to wait for the previous one
        else if (may_park() && park(self, frame, generation)) {
            parked = true;
            after_park(barrier);
        }
    } else if (caller == Caller::kernel && tell_arrival(info->si_fd)) {
        // The watcher's function has run.
    } else if (!is_for_program(caller, *info)) {
        answer(frame);
    } else if (run_handler_of_program != nullptr && run_handler_of_program(info, frame)) {
        return; // waits end with EINTR, as after any handler
    }
    const bool enters_call = resume_call(frame);
    if (parked)
        tell_gone(enters_call);
}

} // namespace cryo::agent
