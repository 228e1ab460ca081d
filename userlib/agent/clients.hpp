// SPDX-License-Identifier: Apache-2.0
//
// Clients: the threads that have called cr_init(), each with its critical section, its callbacks
// and, during a checkpoint, its progress through them. Records are never unmapped; one whose thread
// has ended is reused.
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

// Growing replaces the memory, so that the thread's own signal handler always sees a whole list.
struct CallbackList {
    Callback *items = nullptr;
    uint32_t count = 0;
    uint32_t capacity = 0;
};

struct alignas(64) Client {
    std::atomic<int32_t> depth; // of nested critical sections
    std::atomic<int32_t> tid;   // 0: free
    int32_t id;                 // what cr_init() returned
    std::atomic<int32_t> hold;
    int32_t persist;
    bool thread_context; // libcr's own thread: its callbacks are those of the process
    Client *next;
    CallbackList callbacks;

    // Progress through the callbacks in the current checkpoint (callbacks.cpp).
    std::atomic<uint32_t> called_up; // 1: is to run its callbacks, has not begun
    std::atomic<uint32_t> waiting;   // 1: has run its callbacks, waits to be parked
    bool running;                    // inside a callback
    bool called;                     // this callback has called cr_checkpoint()
    bool leads;
    int32_t current; // the index of the current callback
    uint32_t position;
    uint32_t round;
    uint32_t generation;
    void *frame;
    cr_checkpoint_info info;
    cr_restart_info restart;
};

// The calling thread's record, or null. Initial-exec: a plain load relative to the thread's base,
// without a call or an allocation.
#ifdef CRYO_ATTACHED
extern Client *this_client; // always null: nobody can reach an attached agent's cr_init()
#else
extern __thread Client *this_client [[gnu::tls_model("initial-exec")]];
#endif
// While there is a lodger: whether this thread currently runs with its thread-local storage.
bool has_lodgers_storage();

inline Client *self_client()
{
    if (__builtin_expect(has_lodger(), 0) && has_lodgers_storage())
        return nullptr;
    Client *client = this_client;
    return client != nullptr && client->tid.load(std::memory_order_relaxed) != 0 ? client : nullptr;
}

Client *first_client();

// A record for the calling thread, its existing one if any; null if memory is short.
Client *take_client();
// For a thread that ends.
void drop_client(Client &client);
// For a restored thread, which may have another id now.
void renew_client();
// For the child after a fork, in which no thread has called cr_init() and nothing is registered.
void forget_clients();

long add_callback(CallbackList &list, Callback callback);

// The callbacks that run in libcr's own thread.
CallbackList &thread_callbacks();

} // namespace cryo::agent
