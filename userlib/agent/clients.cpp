// SPDX-License-Identifier: Apache-2.0
#include "agent/clients.hpp"

#include "agent/agent.hpp"
#include "sys/page.hpp"
#include "sys/raw.hpp"

#include <asm/prctl.h>
#include <cerrno>
#include <sys/mman.h>

namespace cryo::agent {

#ifdef CRYO_ATTACHED
constinit Client *this_client = nullptr;
#else
[[gnu::tls_model("initial-exec")]] __thread Client *this_client;
#endif

namespace {

constinit std::atomic<Client *> clients;
constinit std::atomic<int32_t> next_id;
constinit CallbackList of_process;

template <class T>
T *map_pages(size_t size)
{
    const long at = sys::call(SYS_mmap, nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return sys::failed(at) ? nullptr : reinterpret_cast<T *>(at);
}

int32_t gettid()
{
    return static_cast<int32_t>(sys::call(SYS_gettid));
}

// A page of new records, linked in front of the others. The caller already owns the first.
Client *add_page(int32_t tid)
{
    constexpr size_t size = sys::page_size;
    auto *page = map_pages<Client>(size);
    if (page == nullptr)
        return nullptr;
    const size_t count = size / sizeof(Client);
    for (size_t i = 0; i + 1 < count; i++)
        page[i].next = &page[i + 1];
    page[0].tid.store(tid);
    Client *before = clients.load();
    do {
        page[count - 1].next = before;
    } while (!clients.compare_exchange_weak(before, page));
    return page;
}

} // namespace

// Checks the thread's base, as a thread made by a raw clone may share that of another one.
bool has_lodgers_storage()
{
    uint64_t base = 0;
    sys::call(SYS_arch_prctl, ARCH_GET_FS, &base);
    return is_lodgers_address(base);
}

Client *first_client()
{
    return clients.load(std::memory_order_acquire);
}

Client *take_client()
{
    const int32_t tid = gettid();
    if (Client *mine = self_client(); mine != nullptr && mine->tid.load() == tid)
        return mine;
    Client *client = first_client();
    for (; client != nullptr; client = client->next) {
        int32_t nobody = 0;
        if (client->tid.compare_exchange_strong(nobody, tid))
            break;
    }
    if (client == nullptr)
        client = add_page(tid);
    if (client == nullptr)
        return nullptr;
    client->id = next_id.fetch_add(1) & 0x7fffffff;
    client->hold.store(CR_HOLD_DFLT);
    client->persist = 0;
    client->thread_context = false;
    client->callbacks.count = 0;
    client->running = client->called = client->leads = false;
    client->depth.store(0);
    this_client = client;
    return client;
}

void drop_client(Client &client)
{
    client.callbacks.count = 0;
    client.thread_context = false;
    client.called_up.store(0);
    client.waiting.store(0);
    client.depth.store(0);
    if (this_client == &client)
        this_client = nullptr;
    client.tid.store(0, std::memory_order_release);
}

void renew_client()
{
    if (this_client != nullptr && this_client->tid.load() != 0)
        this_client->tid.store(gettid());
}

void forget_clients()
{
    for (Client *client = first_client(); client != nullptr; client = client->next)
        drop_client(*client);
    of_process.count = 0;
}

long add_callback(CallbackList &list, Callback callback)
{
    if (list.count >= CR_MAX_CALLBACKS)
        return -ENOSPC;
    if (list.count == list.capacity) {
        const uint32_t capacity =
            list.capacity == 0 ? sys::page_size / sizeof(Callback) : list.capacity * 2;
        auto *items = map_pages<Callback>(capacity * sizeof(Callback));
        if (items == nullptr)
            return -ENOMEM;
        for (uint32_t i = 0; i < list.count; i++)
            items[i] = list.items[i];
        Callback *old = list.items;
        const size_t old_size = list.capacity * sizeof(Callback);
        list.items = items;
        list.capacity = capacity;
        if (old != nullptr)
            sys::call(SYS_munmap, old, old_size);
    }
    list.items[list.count] = callback;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    list.count++;
    return list.count - 1;
}

CallbackList &thread_callbacks()
{
    return of_process;
}

} // namespace cryo::agent
