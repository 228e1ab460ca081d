// SPDX-License-Identifier: Apache-2.0
// The beginning of an agent that cr_checkpoint --attach has put into a running program. No loader
// has prepared it: it needs no other library, has no thread-local storage, and relocates itself. A
// thread of the program enters it at any instruction, as it would a signal handler, perhaps while
// it holds a lock of the C library: nothing here may call that.
//
// Without a hook in the C library's fork, a child has the agent's memory but no door of its own,
// until --attach enters it here once more.
#include "protocol/attached.hpp"

#include "agent/callbacks.hpp"
#include "agent/forked.hpp"
#include "agent/inherited.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <elf.h>

extern "C" {
// In place of the C library's, for sys/rseq_area.hpp.
[[gnu::visibility("hidden")]] constinit ptrdiff_t __rseq_offset = 0;
[[gnu::visibility("hidden")]] constinit unsigned __rseq_size = 0;

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const Elf64_Dyn _DYNAMIC[] __attribute__((visibility("hidden")));

void cryo_attached_begin(cryo::agent::AttachOrder *order);
}

namespace cryo::agent {

// Callbacks exist only in programs that call libcr, which has an agent of its own.
long need_callback_thread()
{
    return -ENOSYS;
}

bool has_callback_thread()
{
    return false;
}

namespace {

// All relocations are relative; repeating them changes nothing.
void relocate()
{
    const auto base = reinterpret_cast<uint64_t>(__ehdr_start);
    const Elf64_Rela *table = nullptr;
    uint64_t size = 0;
    for (const Elf64_Dyn *one = _DYNAMIC; one->d_tag != DT_NULL; one++) {
        if (one->d_tag == DT_RELA)
            table = reinterpret_cast<const Elf64_Rela *>(base + one->d_un.d_ptr);
        if (one->d_tag == DT_RELASZ)
            size = one->d_un.d_val;
    }
    for (uint64_t i = 0; table != nullptr && i < size / sizeof(Elf64_Rela); i++)
        *reinterpret_cast<uint64_t *>(base + table[i].r_offset) =
            base + static_cast<uint64_t>(table[i].r_addend);
}

// The handler that this agent has installed before, or inherited, would stay for ever.
void leave_former_signal(int now)
{
    const int former = state.signal;
    SignalAction action = {};
    if (former == 0 || former == now ||
        sys::failed(sys::call(SYS_rt_sigaction, former, nullptr, &action, sizeof(action.mask))) ||
        action.handler != reinterpret_cast<uint64_t>(on_signal))
        return;
    const SignalAction standard = {};
    sys::call(SYS_rt_sigaction, former, &standard, nullptr, sizeof(standard.mask));
}

// The agent was here before: in this process, which has closed the door, or in the parent.
void forget_former_time()
{
    if (state.signal == 0)
        return;
    if (state.pid != sys::call(SYS_getpid)) {
        forget_parent();
        return;
    }
    close_inherited();
    forget_control();
}

// Other threads run on, and may have installed a handler since the signal was chosen.
bool is_taken(const SignalAction &action)
{
    return action.handler != 0 && action.handler != reinterpret_cast<uint64_t>(on_signal);
}

long begin(const AttachOrder &order)
{
    if (state.signal != 0 && state.pid == sys::call(SYS_getpid) && state.active.load() != 0)
        return -EBUSY; // a checkpoint is at work
    SignalAction before = {};
    long done = sys::call(SYS_rt_sigaction, order.signal, nullptr, &before, sizeof(before.mask));
    if (sys::failed(done))
        return done;
    if (is_taken(before))
        return -EAGAIN;
    forget_former_time();
    leave_former_signal(order.signal);
    __rseq_offset = order.rseq_offset;
    __rseq_size = order.rseq_size;
    round.connection = -1;
    state.loader = order.loader;
    state.signal = order.signal;
    done = set_handler(state.signal, on_signal, &before);
    if (sys::failed(done))
        return done;
    done = is_taken(before) ? -EAGAIN : open_control();
    if (sys::failed(done)) {
        sys::call(SYS_rt_sigaction, order.signal, &before, nullptr, sizeof(before.mask));
        state.signal = 0;
        return done;
    }
    tell_signal_at_door();
    return 0;
}

} // namespace

} // namespace cryo::agent

void cryo_attached_begin(cryo::agent::AttachOrder *order)
{
    cryo::agent::relocate();
    order->result = cryo::agent::begin(*order);
}
