// SPDX-License-Identifier: Apache-2.0
//
// Critical sections. Each client counts its own, on its own cache line; a request closes the gate
// and then looks at the counts. A thread that enters raises its count first and looks at the gate
// second, so one of the two always sees the other, if neither processor reorders them. The request
// ensures that: membarrier(2) makes all threads of the process pass a barrier, so entering and
// leaving are plain instructions. If the kernel refuses it, they use barriers of their own.
#include "agent/callbacks.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <linux/membarrier.h>

namespace cryo::agent {

namespace {

constinit std::atomic<bool> own_barriers;

inline void barrier_against_gate()
{
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (own_barriers.load(std::memory_order_relaxed))
        std::atomic_thread_fence(std::memory_order_seq_cst);
}

// Only the thread and its signal handlers change the count, and handlers restore it.
inline int32_t add_depth(Client &client, int32_t by)
{
    const int32_t before = client.depth.load(std::memory_order_relaxed);
    client.depth.store(before + by, std::memory_order_release);
    barrier_against_gate();
    return before;
}

// If no thread is left inside, the checkpoint that waits is taken: before this returns, unless the
// caller is not to wait.
[[gnu::noinline]] void leave_for_checkpoint(bool waits)
{
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!may_go_on())
        return;
    const auto self = static_cast<int32_t>(sys::call(SYS_gettid));
    round.kicked.store(self);
    // The user's queue of signals may be full for a while.
    while (sys::failed(call_thread(self)) && round.kicked.load() == self)
        wait_while(round.gate, 1, 2'000'000);
    if (!waits)
        return;
    // A thread that has blocked the signal has to unblock it first.
    uint64_t blocked = 0;
    sys::call(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, &blocked, 8);
    if ((blocked >> (state.signal - 1) & 1) == 0) {
        for (uint32_t closed; (closed = round.gate.load()) != 0;)
            wait_while(round.gate, closed);
    }
}

inline void leave(Client &client, bool waits = true)
{
    const int32_t before = add_depth(client, -1);
    if (before == 1 && round.gate.load(std::memory_order_relaxed) != 0)
        leave_for_checkpoint(waits);
}

// A THREAD-context callback, which runs beside the program, may be waiting for the caller.
bool may_be_needed()
{
    return thread_callbacks().count > 0;
}

// The thread was called to continue the round but has blocked the signal: if it waited now, or
// ended, the checkpoint and all threads that want to enter would wait for ever. Lets the handler
// run.
void obey_blocked_call()
{
    if (round.kicked.load() != static_cast<int32_t>(sys::call(SYS_gettid)))
        return;
    const uint64_t call = uint64_t(1) << (state.signal - 1);
    uint64_t before = 0;
    sys::call(SYS_rt_sigprocmask, SIG_UNBLOCK, &call, &before, sizeof(before));
    sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof(before));
}

// The slow path. 0: may enter or leave. > 0: in a callback, where critical sections have no
// effect. < 0: −errno.
int check(const Client *client, int id)
{
    if (client == nullptr)
        return -CR_ENOINIT;
    if (client->running)
        return id == CR_ID_CALLBACK ? 1 : -EINVAL;
    return id == client->id ? 0 : -EINVAL;
}

// The gate is closed: waits, or gives up.
[[gnu::noinline]] int enter_closed(Client &client, bool only_if_at_once)
{
    for (;;) {
        const uint32_t closed = round.gate.load(std::memory_order_acquire);
        if (closed == 0)
            return 0;
        leave(client, !only_if_at_once);
        if (only_if_at_once)
            return 1;
        obey_blocked_call();
        wait_while(round.gate, closed);
        if (add_depth(client, 1) != 0)
            return 0;
    }
}

inline int enter(Client &client, bool only_if_at_once)
{
    if (add_depth(client, 1) != 0 || round.gate.load(std::memory_order_acquire) == 0)
        return 0;
    return enter_closed(client, only_if_at_once);
}

inline bool is_usual(const Client *client, int id)
{
    return __builtin_expect(client != nullptr && !client->running && id == client->id, 1);
}

} // namespace

bool anybody_inside()
{
    for (const Client *client = first_client(); client != nullptr; client = client->next) {
        if (client->depth.load() != 0)
            return true;
    }
    return false;
}

void prepare_sections()
{
    if (sys::failed(sys::call(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0)))
        own_barriers.store(true);
}

void close_gate()
{
    round.gate.store(1);
    if (first_client() != nullptr && !own_barriers.load())
        sys::call(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

void open_gate()
{
    round.gate.store(0);
    wake_all(round.gate);
}

bool may_go_on()
{
    auto waiting = static_cast<uint32_t>(Stage::waiting);
    return round.stage.load() == waiting && !anybody_inside() &&
           round.stage.compare_exchange_strong(waiting, static_cast<uint32_t>(Stage::requested));
}

int enter_cs(int id, bool only_if_at_once)
{
    Client *client = self_client();
    if (is_usual(client, id))
        return enter(*client, only_if_at_once);
    const int checked = check(client, id);
    return checked < 0 ? checked : 0;
}

int leave_cs(int id)
{
    Client *client = self_client();
    if (!is_usual(client, id)) {
        const int checked = check(client, id);
        return checked < 0 ? checked : 0;
    }
    if (client->depth.load(std::memory_order_relaxed) == 0)
        return -EINVAL;
    leave(*client);
    return 0;
}

int enter_request(int id)
{
    return enter_cs(id, may_be_needed());
}

int leave_request(int id)
{
    Client *client = self_client();
    if (!may_be_needed() || !is_usual(client, id))
        return leave_cs(id);
    leave(*client, false);
    return 0;
}

int enter_change(Client **client)
{
    *client = self_client();
    if (*client == nullptr)
        return -CR_ENOINIT;
    if ((*client)->running)
        return -EBUSY;
    return enter(**client, false);
}

void leave_change(Client &client)
{
    leave(client);
}

// A thread that ends, perhaps inside a section, must not keep a checkpoint waiting.
void drop_critical_sections(Client &client)
{
    while (client.depth.load() > 0)
        leave(client);
    obey_blocked_call();
}

} // namespace cryo::agent
