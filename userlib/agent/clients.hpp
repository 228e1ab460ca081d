// SPDX-License-Identifier: Apache-2.0
//
// Clients: the threads that have called cr_init(), each with its critical section, its callbacks
// and, while a checkpoint runs, the place it has reached in them. Records are never unmapped; one
// whose thread has ended is given to the next.
#pragma once

#include "agent/agent.hpp"
#include "libcr.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cryo::agent {

struct Callback {
    cr_callback_t fn;
    void *argument;
};

// Grows by replacing the memory, so that the thread's own signal handler always sees a whole list.
struct CallbackList {
    Callback *items = nullptr;
    uint32_t count = 0;
    uint32_t capacity = 0;
};

struct alignas(64) Client {
    std::atomic<int32_t> depth; // of nested critical sections
    std::atomic<int32_t> tid;   // 0: nobody's
    int32_t id;                 // what cr_init() returned
    std::atomic<int32_t> hold;
    int32_t persist;
    bool thread_context; // libcr's own thread: its callbacks are those of the process
    Client *next;
    CallbackList callbacks;

    // One checkpoint's way through the callbacks (callbacks.cpp).
    std::atomic<uint32_t> called_up; // 1: shall run its callbacks, has not begun
    std::atomic<uint32_t> waiting;   // 1: through with them, waits to be parked
    bool running;                    // inside a callback
    bool called;                     // this callback has called cr_checkpoint()
    bool leads;
    int32_t current; // its number
    uint32_t position;
    uint32_t round;
    uint32_t generation;
    void *frame;
    cr_checkpoint_info info;
    cr_restart_info restart;
};

// The calling thread's record, or null. Initial-exec: a plain load relative to the thread's base,
// no call and no memory to be had.
extern __thread Client *this_client [[gnu::tls_model("initial-exec")]];
// As long as there is a lodger: this thread may run with its thread-local storage.
bool has_lodgers_storage();

inline Client *self_client()
{
    if (__builtin_expect(has_lodger(), 0) && has_lodgers_storage())
        return nullptr;
    Client *client = this_client;
    return client != nullptr && client->tid.load(std::memory_order_relaxed) != 0 ? client : nullptr;
}

Client *first_client();

// A record for the calling thread, its old one if it has one; null without memory.
Client *take_client();
// The thread ends.
void drop_client(Client &client);
// In a restored thread, which may have another id now.
void renew_client();
// In the child after a fork: nobody has called cr_init(), nothing is registered.
void forget_clients();

long add_callback(CallbackList &list, Callback callback);

// The callbacks that are run in libcr's own thread.
CallbackList &thread_callbacks();

} // namespace cryo::agent
