// SPDX-License-Identifier: Apache-2.0
// The control socket and the checkpoint signal: how a request reaches the program.
#include "agent/callbacks.hpp"
#include "agent/inherited.hpp"
#include "agent/room.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/socket.h>
#include <ucontext.h>

namespace cryo::agent {

namespace {

// Whoever may trace us may save us: root, and ourselves where all of our ids are the same.
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

// There is no room for a connection, and there may never be any: whoever waits is to know.
void turn_away()
{
    forget_control();
    open_control();
}

// Takes connections until there is none. A thread that finds another one at it leaves it to that
// one, which therefore looks again when it has ended.
void answer(void *frame)
{
    if (state.listener == 0)
        return; // meant for the program that was here before
    do {
        uint32_t idle = 0;
        if (!state.active.compare_exchange_strong(idle, 1))
            return;
        expect_connections();
        const auto connection = static_cast<int>(with_room(
            [] { return sys::call(SYS_accept4, state.listener, nullptr, nullptr, SOCK_CLOEXEC); }));
        if (connection >= 0 && peer_allowed(connection)) {
            // Asked for each time: after a restart that came back here, it may be another.
            begin_round(connection, static_cast<int>(sys::call(SYS_gettid)), frame);
            continue;
        }
        if (connection >= 0)
            sys::call(SYS_close, connection);
        if (connection == -EMFILE)
            turn_away();
        state.active.store(0, std::memory_order_release);
        release_threads();
    } while (connection_waits());
}

} // namespace

// One checkpoint, seen by the thread that leads it. The frame stays small: it is saved, and after
// a restart this function goes on as if cryo_context_save had returned a second time.
// The leader goes last: what the program does next in this thread may be a signal to a thread that
// it knows to be asleep in a system call. (Where callbacks are still to end, so is everybody.)
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
    if (restarted && !over)
        tell_alive();
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

// Who calls: one of our threads; from outside, whoever found the program stopped; the kernel, as
// somebody has connected.
enum class Caller { thread, outside, kernel, program };

Caller caller_of(const siginfo_t &info)
{
    if (info.si_code == SI_QUEUE && info.si_value.sival_ptr == &state)
        return Caller::thread;
    if (info.si_code == SI_TKILL && info.si_pid != static_cast<int>(sys::call(SYS_getpid)))
        return Caller::outside;
    return info.si_code > 0 ? Caller::kernel : Caller::program;
}

// What the kernel tells of a descriptor may be about one of the program's.
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
            answer(frame); // a request that had to wait for the last one
        else if (may_park() && park(self, frame, generation)) {
            parked = true;
            after_park(barrier);
        }
    } else if (caller == Caller::kernel && tell_arrival(info->si_fd)) {
        // Whoever listens there has heard of it.
    } else if (!is_for_program(caller, *info)) {
        answer(frame);
    } else if (run_handler_of_program != nullptr && run_handler_of_program(info, frame)) {
        return; // waits end by it, as they do by any handler
    }
    const bool enters_call = resume_call(frame);
    if (parked)
        tell_gone(enters_call);
}

} // namespace cryo::agent
