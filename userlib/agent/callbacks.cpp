// SPDX-License-Identifier: Apache-2.0
// Runs one client's callbacks, nested in one another, and answers what a callback may ask.
#include "agent/callbacks.hpp"
#include "agent/round.hpp"
#include "sys/raw.hpp"

#include <cerrno>

namespace cryo::agent {

namespace {

constexpr int abort_flags =
    CR_CHECKPOINT_TEMP_FAILURE | CR_CHECKPOINT_PERM_FAILURE | CR_CHECKPOINT_OMIT;

const CallbackList &list_of(const Client &client)
{
    return client.thread_context ? thread_callbacks() : client.callbacks;
}

// A child forked in a callback is in no round.
bool has_left(const Client &client)
{
    return client.round != round.number.load(std::memory_order_relaxed);
}

// The innermost cr_checkpoint(): the outer ones return its result.
int take_image(Client &client)
{
    if (client.thread_context)
        return lead_from_thread(client);
    if (client.leads) {
        lead_here(client.tid.load(), client.frame);
        return round.outcome.load();
    }
    return wait_for_image(client);
}

int run_rest(Client &client)
{
    while (client.position > 0) {
        const CallbackList &list = list_of(client);
        const auto index = static_cast<int32_t>(--client.position);
        const Callback callback = list.items[index];
        if (callback.fn == nullptr)
            continue;
        const int32_t outer = client.current;
        client.current = index;
        client.called = false;
        const int returned = callback.fn(callback.argument);
        if (has_left(client))
            return -CR_ENOTCB;
        int outcome = round.outcome.load();
        if (!client.called) {
            if (returned != 0) {
                vote(CR_CHECKPOINT_PERM_FAILURE, CR_EPERMFAIL);
                client.position = 0;
            }
            client.called = true;
            outcome = run_rest(client);
            if (has_left(client))
                return outcome;
        } else if (returned != 0 && outcome >= 0) {
            round.failure.store(outcome > 0 ? CR_ERSTRTABRT : CR_EPERMFAIL);
        }
        // The callback around this one is inside its cr_checkpoint().
        client.current = outer;
        client.called = true;
        return outcome;
    }
    return take_image(client);
}

Client *running_client()
{
    Client *client = self_client();
    return client != nullptr && client->running ? client : nullptr;
}

} // namespace

int run_callbacks(Client &client)
{
    client.info = {round.info.signal, round.info.dest, round.info.requester, round.info.target,
                   static_cast<cr_scope_t>(round.info.scope)};
    client.round = round.number.load();
    client.position = list_of(client).count;
    client.current = -1;
    client.called = true;
    client.running = true;
    const int outcome = run_rest(client);
    if (!has_left(client))
        client.running = false;
    return outcome;
}

namespace {

// The x87 stack and how numbers are rounded, which a callback may have chosen: a restored thread
// goes on in the handler with neither.
class FloatingPoint
{
  public:
    FloatingPoint()
    {
        // The first of these empties the stack.
        __asm__ volatile("fnsave %0; frstor %0; stmxcsr %1" : "=m"(x87_), "=m"(mxcsr_));
    }
    void put_back() const { __asm__ volatile("frstor %0; ldmxcsr %1" : : "m"(x87_), "m"(mxcsr_)); }

  private:
    char x87_[108];
    uint32_t mxcsr_;
};

} // namespace

int callback_checkpoint(int flags)
{
    Client *client = running_client();
    if (client == nullptr || client->called)
        return -CR_ENOTCB;
    const FloatingPoint floating_point;
    client->called = true;
    const int kind = flags & abort_flags;
    if (kind != 0) {
        const int code = flags >> 16 & 0xffff;
        if ((kind & CR_CHECKPOINT_PERM_FAILURE) != 0)
            vote(CR_CHECKPOINT_PERM_FAILURE, code != 0 ? code : CR_EPERMFAIL);
        else if ((kind & CR_CHECKPOINT_TEMP_FAILURE) != 0)
            vote(CR_CHECKPOINT_TEMP_FAILURE, code != 0 ? code : CR_ETEMPFAIL);
        else
            vote(CR_CHECKPOINT_OMIT, CR_EOMITTED);
        client->position = 0; // the rest of this group is skipped
    }
    const int32_t current = client->current;
    const int outcome = run_rest(*client);
    if (outcome > 0)
        floating_point.put_back();
    if (!has_left(*client)) {
        client->current = current;
        client->called = true;
    }
    return outcome;
}

const cr_checkpoint_info *checkpoint_info()
{
    const Client *client = running_client();
    return client != nullptr ? &client->info : nullptr;
}

const cr_restart_info *restart_info()
{
    Client *client = running_client();
    if (client == nullptr || !client->called || round.outcome.load() <= 0)
        return nullptr;
    client->restart.requester = static_cast<pid_t>(sys::call(SYS_getppid));
    client->restart.src = state.resume.source;
    return &client->restart;
}

namespace {

long check_context(int flags)
{
    return flags == CR_THREAD_CONTEXT || flags == CR_SIGNAL_CONTEXT ? 0 : -EINVAL;
}

constexpr int contexts = CR_THREAD_CONTEXT | CR_SIGNAL_CONTEXT;

// All threads share the process's list.
constinit std::atomic<uint32_t> list_lock;

struct ListLock {
    ListLock()
    {
        while (list_lock.exchange(1, std::memory_order_acquire) != 0)
            sys::call(SYS_sched_yield);
    }
    ~ListLock() { list_lock.store(0, std::memory_order_release); }
};

} // namespace

void forget_callback_lock()
{
    list_lock.store(0);
}

int register_callback(cr_callback_t fn, void *argument, int flags)
{
    if (self_client() == nullptr)
        return -CR_ENOINIT;
    if (const long bad = check_context(flags); bad != 0)
        return static_cast<int>(bad);
    const bool in_thread = flags == CR_THREAD_CONTEXT;
    Client *client = nullptr;
    if (const int entered = enter_change(&client); entered != 0)
        return entered;
    long result = in_thread ? need_callback_thread() : 0;
    if (result == 0 && in_thread) {
        const ListLock lock;
        result = add_callback(thread_callbacks(), {fn, argument});
    } else if (result == 0) {
        result = add_callback(client->callbacks, {fn, argument});
    }
    leave_change(*client);
    return result < 0 ? static_cast<int>(result) : static_cast<int>(result) | flags;
}

int replace_callback(int id, cr_callback_t fn, void *argument, int flags)
{
    if (self_client() == nullptr)
        return -CR_ENOINIT;
    if (id < 0 || check_context(flags) != 0 || (id & contexts) != flags)
        return -EINVAL;
    Client *client = nullptr;
    if (const int entered = enter_change(&client); entered != 0)
        return entered;
    const auto index = static_cast<uint32_t>(id & ~contexts);
    int result = -EINVAL;
    {
        const ListLock lock;
        CallbackList &list = flags == CR_THREAD_CONTEXT ? thread_callbacks() : client->callbacks;
        if (index < list.count) {
            list.items[index] = {fn, argument};
            result = 0;
        }
    }
    leave_change(*client);
    return result;
}

int replace_self(cr_callback_t fn, void *argument, int flags)
{
    Client *client = running_client();
    if (client == nullptr || client->current < 0)
        return -CR_ENOTCB;
    if (check_context(flags) != 0 || client->thread_context != (flags == CR_THREAD_CONTEXT))
        return -EINVAL;
    const CallbackList &list = list_of(*client);
    list.items[client->current] = {fn, argument};
    return 0;
}

void abandon_callbacks(Client &client)
{
    if (!client.running || has_left(client))
        return;
    client.running = false;
    const auto released = static_cast<uint32_t>(Stage::released);
    if (round.stage.load() != released) {
        vote(CR_CHECKPOINT_TEMP_FAILURE, CR_ETEMPFAIL);
        if (client.leads || client.thread_context)
            refuse();
    }
    leave_round_without_hold();
}

} // namespace cryo::agent
